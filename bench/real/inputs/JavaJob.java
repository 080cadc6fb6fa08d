// SPDX-License-Identifier: MIT
//
// JavaJob.java: started as `java JavaJob.java`, so that a virtual machine comes up, a compiler runs in it, and then
// this: maps, streams, strings, threads. Prints a checksum.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class JavaJob {
  record Order(int number, String customer, double amount) {}

  static List<Order> orders(int count, long seed) {
    Random random = new Random(seed);
    List<Order> made = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      made.add(new Order(i, "customer " + random.nextInt(500), random.nextInt(100000) / 100.0));
    }
    return made;
  }

  static String report(List<Order> orders) {
    Map<String, Double> sums =
        orders.stream()
            .collect(Collectors.groupingBy(Order::customer, TreeMap::new, Collectors.summingDouble(Order::amount)));
    return sums.entrySet().stream()
        .map(e -> String.format("%s: %.2f", e.getKey(), e.getValue()))
        .collect(Collectors.joining("\n"));
  }

  // Buffers outside the heap, and zlib: what asks malloc.
  static long pack(String text) {
    byte[] bytes = text.getBytes();
    CRC32 sum = new CRC32();
    for (int i = 0; i < 40; ++i) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length + 100 * i);
      Deflater deflater = new Deflater(1 + i % 9);
      deflater.setInput(bytes);
      deflater.finish();
      deflater.deflate(buffer);
      deflater.end();
      buffer.flip();
      sum.update(buffer);
    }
    return sum.getValue();
  }

  public static void main(String[] arguments) throws Exception {
    int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 4;
    var pool = Executors.newFixedThreadPool(2);
    List<Future<Long>> results = new ArrayList<>();
    for (int round = 0; round < rounds; ++round) {
      long seed = round;
      results.add(pool.submit(() -> pack(report(orders(20000, seed)))));
    }
    long total = 0;
    for (Future<Long> result : results) total = total * 31 + result.get();
    pool.shutdown();
    System.out.println(Long.toHexString(total));
  }
}
