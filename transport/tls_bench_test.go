// READs over TLS beside their limits: crypto/tls on a socket, and the cipher alone.

package transport

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// BenchmarkTLS measures READs of 1 MiB over TLS, four at a time; the same bytes through two
// tls.Conns in pieces of 64 KiB; and AES-256-GCM on one processor in records of 16 KiB.
func BenchmarkTLS(b *testing.B) {
	const size = 1 << 20
	b.Run("read", func(b *testing.B) { benchReads(b, networks[2], size) })
	b.Run("clear", func(b *testing.B) { benchReads(b, networks[0], size) })
	b.Run("pipe", func(b *testing.B) { benchPipe(b, size) })
	b.Run("seal", func(b *testing.B) {
		block, err := aes.NewCipher(make([]byte, 32))
		if err != nil {
			b.Fatalf("NewCipher: %v", err)
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			b.Fatalf("NewGCM: %v", err)
		}
		data, nonce := make([]byte, tlsPayload, tlsPayload+tlsOverhead), make([]byte, gcm.NonceSize())
		b.SetBytes(tlsPayload)
		for b.Loop() {
			gcm.Seal(data[:0], nonce, data, nil)
		}
	})
}

func benchReads(b *testing.B, n network, size int) {
	_, _, addr := n.start(b, ServerConfig{})
	c := n.client(b, addr, ClientConfig{Cred: SysCred()})
	const depth = 4
	todo := make(chan struct{})
	var all sync.WaitGroup
	for range depth {
		sink, in, res := make([]byte, size), words{uint32(size)}, &readRes{}
		all.Go(func() {
			for range todo {
				if err := c.Call(bg, testProc(tRead), &in, res, sink, 0); err != nil {
					b.Errorf("Call: %v", err)
				}
			}
		})
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		todo <- struct{}{}
	}
	close(todo)
	all.Wait()
}

func benchPipe(b *testing.B, size int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		cfg, _ := serverTLS(testPKI().server, alpnSunRPC)
		io.CopyBuffer(io.Discard, struct{ io.Reader }{tls.Server(nc, cfg)}, make([]byte, 1<<20))
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatalf("Dial: %v", err)
	}
	defer nc.Close()
	cfg, _ := clientTLS(testPKI().client, l.Addr().String(), alpnSunRPC)
	tc := tls.Client(nc, cfg)
	if err := tc.Handshake(); err != nil {
		b.Fatalf("Handshake: %v", err)
	}
	data := make([]byte, 64<<10)
	b.SetBytes(int64(size))
	for b.Loop() {
		for range size / len(data) {
			if _, err := tc.Write(data); err != nil {
				b.Fatalf("Write: %v", err)
			}
		}
	}
}
