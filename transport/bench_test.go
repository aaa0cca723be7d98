// A call's cost over each network.

package transport

import (
	"testing"
)

func BenchmarkCall(b *testing.B) {
	for _, n := range networks {
		b.Run(n.name, func(b *testing.B) {
			_, _, addr := n.start(b, ServerConfig{})
			c := n.client(b, addr, ClientConfig{Cred: SysCred()})
			add, read, write := testProc(tAdd), testProc(tRead), testProc(tWrite)
			data := make([]byte, 64<<10)
			b.Run("NULL", func(b *testing.B) {
				null := testProc(tNull)
				benchCalls(b, 0, func() error { return c.Call(bg, null, nil, nil, nil, 0) })
			})
			b.Run("ADD-32", func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					in, out := words{1, 2}, words{0}
					for pb.Next() {
						if err := c.Call(bg, add, &in, &out, nil, 0); err != nil {
							b.Errorf("Call: %v", err)
						}
					}
				})
			})
			b.Run("READ-64K", func(b *testing.B) {
				in, r := words{64 << 10}, &readRes{}
				benchCalls(b, len(data), func() error { return c.Call(bg, read, &in, r, data, 0) })
			})
			b.Run("WRITE-64K", func(b *testing.B) {
				in, out := &writeArgs{data}, words{0, 0}
				benchCalls(b, len(data), func() error { return c.Call(bg, write, in, &out, nil, 0) })
			})
		})
	}
}

func benchCalls(b *testing.B, size int, call func() error) {
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatalf("call: %v", err)
		}
	}
}
