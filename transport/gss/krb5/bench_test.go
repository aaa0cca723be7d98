// The speed of tokens beside the bare ciphers and hashes of their enctypes, in one run.

package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"testing"
	"time"
)

// speeds runs functions over n bytes in turns, and returns the best bytes per second of
// each.
func speeds(n int, rounds int, fs ...func()) []float64 {
	best := make([]time.Duration, len(fs))
	for range rounds {
		for i, f := range fs {
			start := time.Now()
			f()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	out := make([]float64, len(fs))
	for i, d := range best {
		out[i] = float64(n) / d.Seconds()
	}
	return out
}

// BenchmarkTokens reports the MB/s of Wrap, Unwrap and MIC for 1 MiB. It also reports the share
// that Wrap and Unwrap reach of AES-CBC followed by the hash, over the same bytes, and of AES
// alone.
func BenchmarkTokens(b *testing.B) {
	const n = 1 << 20
	for _, et := range enctypes {
		b.Run(et.name, func(b *testing.B) {
			i, a := contexts(b, et.id)
			plain, buf, scratch := make([]byte, n), make([]byte, 0, n+4096), make([]byte, n)
			block, _ := aes.NewCipher(make([]byte, et.keySize))
			h := et.newHash()
			token := i.Wrap(nil, plain)
			work := make([]byte, len(token))
			var s []float64
			for b.Loop() {
				s = speeds(n, 20,
					func() { i.Wrap(buf, plain) },
					func() {
						copy(work, token)
						if _, err := a.Unwrap(work); err != nil {
							b.Fatal(err)
						}
					},
					func() { i.MIC(buf, plain) },
					func() { cipher.NewCBCEncrypter(block, zeroIV[:]).CryptBlocks(scratch, plain) },
					func() { cipher.NewCBCDecrypter(block, zeroIV[:]).CryptBlocks(scratch, plain) },
					func() { h.Write(plain) },
				)
			}
			serial := func(x, y float64) float64 { return 1 / (1/x + 1/y) }
			for name, v := range map[string]float64{
				"MB/s-wrap": s[0] / 1e6, "MB/s-unwrap": s[1] / 1e6, "MB/s-mic": s[2] / 1e6,
				"wrap-of-cipher+hash": s[0] / serial(s[3], s[5]), "unwrap-of-cipher+hash": s[1] / serial(s[4], s[5]),
				"wrap-of-aes": s[0] / s[3], "unwrap-of-aes": s[1] / s[4], "mic-of-hash": s[2] / s[5],
			} {
				b.ReportMetric(v, name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMIC makes and verifies a MIC over an RPC header.
func BenchmarkMIC(b *testing.B) {
	for _, et := range enctypes {
		i, a := contexts(b, et.id)
		parts := [][]byte{make([]byte, 120)}
		var buf [64]byte
		token := i.MIC(nil, parts...)
		b.Run(fmt.Sprint(et.name, "/make"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i.MIC(buf[:0], parts...)
			}
		})
		b.Run(fmt.Sprint(et.name, "/check"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = a.VerifyMIC(token, parts...)
			}
		})
	}
}

// BenchmarkAccept measures the acceptor's part in creating a context.
func BenchmarkAccept(b *testing.B) {
	a, _ := testAcceptor(b, "")
	for _, et := range enctypes {
		b.Run(et.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				token := newForgery(b, et.id).token()
				b.StartTimer()
				if _, _, err := a.Accept(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
