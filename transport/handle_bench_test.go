// The cost of large results of Handle, without items.

package transport

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// repeated is a result of many words.
type repeated int

func (w *repeated) EncodeXDR(e *xdr.Encoder) {
	for range *w {
		e.Uint32(7)
	}
}

// An unread is a result whose content the client skips.
type unread struct{}

func (unread) DecodeXDR(d *xdr.Decoder) { d.Rest() }

const wordsProg = 0x20000f13

// wordsProgram returns a program whose procedure returns as many words as its argument says.
func wordsProgram() *Program {
	return &Program{Name: "words", Number: wordsProg, Version: 1, Procs: []Procedure{{Name: "WORDS", Idempotent: true,
		Run: Handle(func(_ *Call, args *handleCount, res *repeated) error {
			*res = repeated(args.n)
			return nil
		})}}}
}

type handleCount struct{ n uint32 }

func (a *handleCount) EncodeXDR(e *xdr.Encoder) { e.Uint32(a.n) }
func (a *handleCount) DecodeXDR(d *xdr.Decoder) { a.n = d.Uint32() }

func BenchmarkLargeResults(b *testing.B) {
	for _, n := range networks {
		for _, size := range []int{64, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", n.name, size), func(b *testing.B) {
				s := NewServer(ServerConfig{}, wordsProgram())
				addr, done, err := n.serve(s, "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				c := n.client(b, addr, ClientConfig{MaxRetries: -1})
				p := &Proc{Prog: wordsProg, Vers: 1, Name: "WORDS", MaxReply: size}
				args := &handleCount{n: uint32(size / 4)}
				b.ReportAllocs()
				for b.Loop() {
					if err := c.Call(bg, p, args, unread{}, nil, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				s.Shutdown(bg)
				<-done
			})
		}
	}
}
