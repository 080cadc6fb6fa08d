// SPDX-License-Identifier: MIT
// Hold.java: hold.c in Java: direct buffers are not in Java's heap.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class Hold {
  public static void main(String[] arguments) throws Exception {
    List<ByteBuffer> held = new ArrayList<>();
    for (int i = 0; i < 8000; i++) held.add(ByteBuffer.allocateDirect(1000));
    System.out.println("held " + ProcessHandle.current().pid());
    while (System.in.read() != -1) continue;
    held.clear();
  }
}
