// SPDX-License-Identifier: MIT
//
// Workload: a Java program with threads. The heap is Java's own; malloc serves the JIT compiler, the garbage collector's
// tables, threads, direct buffers, zlib and class loading. Prints the same every time. Argument: scale.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Workload {
  static long directBuffers(int seed, int rounds) {
    Random random = new Random(seed);
    List<ByteBuffer> held = new ArrayList<>();
    long sum = 0;
    for (int i = 0; i < rounds; ++i) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(1 + random.nextInt(60_000));
      while (buffer.hasRemaining()) buffer.put((byte) (i + seed));
      held.add(buffer);
      if (held.size() > 50) sum += held.remove(random.nextInt(held.size())).get(0);
    }
    return sum;
  }

  static long packed(int seed) throws Exception {
    byte[] bytes = new byte[300_000];
    Random random = new Random(seed);
    for (int i = 0; i < bytes.length; ++i) bytes[i] = (byte) random.nextInt(20);
    Deflater deflater = new Deflater(seed % 9 + 1);
    deflater.setInput(bytes);
    deflater.finish();
    byte[] small = new byte[bytes.length + 1000];
    int length = deflater.deflate(small);
    deflater.end();
    Inflater inflater = new Inflater();
    inflater.setInput(small, 0, length);
    byte[] back = new byte[bytes.length];
    inflater.inflate(back);
    inflater.end();
    CRC32 crc = new CRC32();
    crc.update(back);
    return crc.getValue();
  }

  public static void main(String[] arguments) throws Exception {
    int scale = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1;
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> answers = new ArrayList<>();
    for (int i = 0; i < 8 * scale; ++i) {
      int seed = i;
      answers.add(pool.submit(() -> directBuffers(seed, 300)));
      answers.add(pool.submit(() -> packed(seed)));
    }
    long sum = 0;
    for (Future<Long> answer : answers) sum += answer.get();
    pool.shutdown();
    System.out.println("buffers and zip: " + sum);

    Map<Integer, List<String>> groups = new ConcurrentHashMap<>(IntStream.range(0, 100_000 * scale).parallel()
        .mapToObj(i -> "text " + i * 31).collect(Collectors.groupingByConcurrent(String::length)));
    groups.forEach((length, texts) -> { synchronized (texts) { texts.sort(null); } });
    groups.keySet().stream().sorted().forEach(
        length -> System.out.println(length + ": " + groups.get(length).size() + " " + groups.get(length).get(0)));

    List<Thread> shortLived = new ArrayList<>();
    for (int i = 0; i < 300 * scale; ++i) {
      Thread thread = new Thread(() -> { byte[] unused = new byte[10_000]; });
      thread.start();
      shortLived.add(thread);
    }
    for (Thread thread : shortLived) thread.join();
    System.gc();
    System.out.println("threads: " + shortLived.size());
  }
}
