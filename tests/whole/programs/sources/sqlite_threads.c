/* SPDX-License-Identifier: MIT
 *
 * sqlite_threads: four threads write to one database file and to a database in memory each; every mutex, cache and
 * statement of SQLite is allocated and freed concurrently. Prints sums that do not depend on the order of the threads,
 * then SQLite's own integrity check.
 * Arguments: database file, rows each thread.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { kThreads = 4, kBusyMs = 60000 };

static const char* file;
static int rows;

static void require(int result, int wanted, sqlite3* db, const char* what) {
  if (result == wanted) return;
  fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(result));
  exit(1);
}

static void execute(sqlite3* db, const char* sql) { require(sqlite3_exec(db, sql, 0, 0, 0), SQLITE_OK, db, sql); }

static sqlite3* open_database(const char* name) {
  sqlite3* db = NULL;
  require(sqlite3_open(name, &db), SQLITE_OK, db, name);
  sqlite3_busy_timeout(db, kBusyMs);
  return db;
}

static long long ask(sqlite3* db, const char* sql) {
  sqlite3_stmt* statement = NULL;
  require(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK, db, sql);
  require(sqlite3_step(statement), SQLITE_ROW, db, sql);
  long long answer = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return answer;
}

static void insert_rows(sqlite3* db, int thread) {
  sqlite3_stmt* insert = NULL;
  require(sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?, ?, printf('%.*c', ?, 'x'))", -1, &insert, NULL), SQLITE_OK,
          db, "prepare");
  for (int i = 0; i < rows; ++i) {
    if (i % 100 == 0) execute(db, "BEGIN IMMEDIATE");
    sqlite3_bind_int(insert, 1, thread);
    sqlite3_bind_int(insert, 2, i);
    sqlite3_bind_int(insert, 3, i % 700);
    require(sqlite3_step(insert), SQLITE_DONE, db, "insert");
    sqlite3_reset(insert);
    if (i % 100 == 99 || i == rows - 1) execute(db, "COMMIT");
  }
  sqlite3_finalize(insert);
}

static void* work(void* argument) {
  int thread = (int)(long)argument;
  sqlite3* shared = open_database(file);
  insert_rows(shared, thread);
  char sql[128];
  snprintf(sql, sizeof sql, "UPDATE t SET text = text || text WHERE thread = %d AND i %% 3 = 0", thread);
  execute(shared, sql);
  sqlite3_close(shared);

  sqlite3* own = open_database(":memory:");
  execute(own, "CREATE TABLE t (thread INT, i INT, text TEXT); CREATE INDEX by_text ON t (text, i)");
  insert_rows(own, thread);
  execute(own, "DELETE FROM t WHERE i % 5 = 0; VACUUM");
  long long sum = ask(own, "SELECT sum(a.i + length(b.text)) FROM t a JOIN t b ON a.i = b.i");
  sqlite3_close(own);
  return (void*)(long)sum;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  file = argv[1];
  rows = atoi(argv[2]);
  sqlite3* db = open_database(file);
  execute(db, "PRAGMA journal_mode = WAL");
  execute(db, "CREATE TABLE t (thread INT, i INT, text TEXT); CREATE INDEX by_text ON t (text, i)");
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, work, (void*)i) != 0) return 1;
  for (int i = 0; i < kThreads; ++i) {
    void* sum = NULL;
    pthread_join(threads[i], &sum);
    printf("in memory, thread %d: %ld\n", i, (long)sum);
  }
  printf("rows %lld, lengths %lld, distinct texts %lld\n", ask(db, "SELECT count(*) FROM t"),
         ask(db, "SELECT sum(length(text)) FROM t"), ask(db, "SELECT count(DISTINCT text) FROM t"));
  printf("integrity %s\n", ask(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") ? "ok" : "BROKEN");
  sqlite3_close(db);
  return 0;
}
