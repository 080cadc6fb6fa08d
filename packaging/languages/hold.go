// SPDX-License-Identifier: MIT
// hold.go: hold.c in Go, by cgo: Go's own heap is not malloc's.
package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"io"
	"os"
	"unsafe"
)

func main() {
	held := make([]unsafe.Pointer, 8000)
	for i := range held {
		held[i] = C.malloc(1000)
	}
	fmt.Println("held", os.Getpid())
	io.Copy(io.Discard, os.Stdin)
	for _, block := range held {
		C.free(block)
	}
}
