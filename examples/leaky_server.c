// SPDX-License-Identifier: MIT
//
// leaky_server: a key-value store on a Unix socket, with a leak for docs/profiles.md to find: one of the ways on which
// a request can fail forgets the request's session.
//
//   leaky_server SOCKET             serves; a line is a request: `set KEY VALUE`, `get KEY`
//   leaky_server SOCKET REQUESTS    sends so many to it, one in ten of them a mistake, and ends
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { kBuckets = 1024, kLine = 512 };

// --- The store -------------------------------------------------------------------------------------------------------

typedef struct Entry {
  struct Entry* next;
  char *key, *value;
} Entry;

static Entry* buckets[kBuckets];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Entry** place_of(const char* key) {
  unsigned hash = 5381;
  for (const char* c = key; *c != 0; ++c) hash = hash * 33 + (unsigned char)*c;
  Entry** place = &buckets[hash % kBuckets];
  while (*place != NULL && strcmp((*place)->key, key) != 0) place = &(*place)->next;
  return place;
}

static void set(const char* key, const char* value) {
  Entry** place = place_of(key);
  if (*place == NULL) {
    *place = calloc(1, sizeof(Entry));
    (*place)->key = strdup(key);
  }
  free((*place)->value);
  (*place)->value = strdup(value);
}

// --- Requests --------------------------------------------------------------------------------------------------------

typedef struct {
  char* words[3];
  int count;
  char* answer;  // kLine bytes
} Session;

static Session* begin_session(char* line) {
  Session* session = calloc(1, sizeof(Session));
  session->answer = malloc(kLine);
  char *rest = NULL, *word;
  for (char* from = line; session->count < 3 && (word = strtok_r(from, " \n", &rest)) != NULL; from = NULL) {
    session->words[session->count++] = strdup(word);
  }
  return session;
}

static void end_session(Session* session) {
  for (int i = 0; i < session->count; ++i) free(session->words[i]);
  free(session->answer);
  free(session);
}

static void serve_request(FILE* client, char* line) {
  Session* session = begin_session(line);
  if (session->count < 2) {
    fputs("error: a verb and a key, please\n", client);
    return;  // the leak
  }
  pthread_mutex_lock(&lock);
  if (session->count == 3) set(session->words[1], session->words[2]);
  const Entry* entry = *place_of(session->words[1]);
  snprintf(session->answer, kLine, "%s\n", entry != NULL ? entry->value : "nothing");
  pthread_mutex_unlock(&lock);
  fputs(session->answer, client);
  end_session(session);
}

static void* serve_client(void* argument) {
  FILE* client = argument;
  char line[kLine];
  while (fgets(line, sizeof line, client) != NULL) {
    fseek(client, 0, SEEK_CUR);  // from reading to writing
    serve_request(client, line);
    fflush(client);
  }
  fclose(client);
  return NULL;
}

static int serve(int door) {
  for (;;) {
    const int connection = accept(door, NULL, NULL);
    pthread_t thread;
    if (connection < 0 || pthread_create(&thread, NULL, serve_client, fdopen(connection, "r+")) != 0) return 1;
    pthread_detach(thread);
  }
}

static int visit(FILE* server, long requests) {
  char line[kLine];
  for (long i = 0; i < requests; ++i) {
    if (i % 10 == 9) {
      fprintf(server, "get\n");
    } else {
      fprintf(server, i % 2 == 0 ? "set key%ld value%ld\n" : "get key%ld\n", i % 5000, i);
    }
    fflush(server);
    if (fgets(line, sizeof line, server) == NULL) return 1;
    fseek(server, 0, SEEK_CUR);
  }
  return 0;
}

int main(int count, char** words) {
  if (count < 2) return 2;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", words[1]);
  signal(SIGPIPE, SIG_IGN);
  const int end = socket(AF_UNIX, SOCK_STREAM, 0);
  if (count > 2) {
    if (connect(end, (struct sockaddr*)&address, sizeof address) != 0) return 1;
    return visit(fdopen(end, "r+"), atol(words[2]));
  }
  unlink(address.sun_path);
  if (bind(end, (struct sockaddr*)&address, sizeof address) != 0 || listen(end, 16) != 0) return 1;
  return serve(end);
}
