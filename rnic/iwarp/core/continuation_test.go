// Segments with CRCs read straight into their memory: only with a destination known in advance, and
// reported only if their CRC is good.

package core

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// continued returns an RDMA Write to mr in three large segments, each an FPDU with its CRC.
func continued(mr *rnic.MR, data []byte) (fpdus [3][]byte) {
	n := len(data) / 3
	for i, ctrl := range []byte{0x81, 0x81, 0xc1} {
		part := data[i*n:][:n]
		fpdus[i] = mpa.AppendFPDU(nil, true, tagged(ctrl, 0x40, mr.STag(), mr.Base()+uint64(i*n), part))
	}
	return fpdus
}

func crcScript(t *testing.T, mode rnic.CRCMode) *script {
	t.Helper()
	s := scriptWith(t, rnic.DeviceConfig{CRC: mode}, rnic.ConnParams{})
	s.open()
	return s
}

// TestContinuationIsPlacedAsItComes: in a message with CRCs the first segment is placed when it is
// complete and verified, the next ones as they arrive; in strict mode all are like the first.
func TestContinuationIsPlacedAsItComes(t *testing.T) {
	for mode, early := range map[rnic.CRCMode]bool{rnic.CRCOn: true, rnic.CRCStrict: false} {
		t.Run(mode.String(), func(t *testing.T) {
			s := crcScript(t, mode)
			data := noise(3 * bigLen)
			mr, _ := s.pd.RegMR(make([]byte, len(data)), rnic.RemoteWrite)
			placed := func(to int) bool { return bytes.Equal(bufOf(mr)[to-1000:to], data[to-1000:to]) }
			f := continued(mr, data)
			s.say(f[0][:50_000])
			if placed(1000) {
				t.Fatal("the first segment was placed before its CRC had come")
			}
			s.say(append(f[0][50_000:], f[1][:40_000]...))
			if !placed(bigLen) {
				t.Fatal("the first segment was not placed")
			}
			if placed(bigLen+1000) != early {
				t.Fatalf("the next segment was placed as it came: %v, want %v", !early, early)
			}
			s.say(append(f[1][40_000:], f[2]...))
			if !holds(mr, data) {
				t.Fatal("content")
			}
		})
	}
}

// TestContinuationPieces receives RDMA Writes and Read Responses in several segments with CRCs, in
// pieces that split them anywhere, with a Send after each.
func TestContinuationPieces(t *testing.T) {
	for _, piece := range []int{61, 999, 16 << 10, 50_000, 1 << 20} {
		for _, n := range []int{directMin, directMin + 21, bigLen} {
			s := crcScript(t, rnic.CRCOn)
			data := noise(3 * n)
			mr, _ := s.pd.RegMR(make([]byte, len(data)), rnic.RemoteWrite)
			sink, _ := s.pd.RegMR(make([]byte, len(data)), rnic.LocalWrite)
			recv(t, s.qp, 1, make([]byte, 5))
			post(t, s.qp, rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: uint32(len(data)), RemoteSTag: 9})
			s.hear(2 + 46 + 4)
			var b []byte
			for _, f := range continued(mr, data) {
				b = append(b, f...)
			}
			b = mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 0, []byte("small")))
			for i, ctrl := range []byte{0x81, 0x81, 0xc1} {
				b = mpa.AppendFPDU(b, true, tagged(ctrl, 0x42, sink.STag(), sink.Base()+uint64(i*n), data[i*n:][:n]))
			}
			for len(b) > 0 {
				k := min(piece, len(b))
				s.say(b[:k])
				b = b[k:]
			}
			s.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
			s.want(t, rnic.OpRead, 3, rnic.WCSuccess)
			if !holds(mr, data) || !holds(sink, data) {
				t.Fatalf("pieces of %d, segments of %d: content", piece, n)
			}
		}
	}
}

// TestContinuationDamaged: any wrong bit in a directly read segment ends the stream because of its
// CRC, and nothing completes. Bytes are placed only after the end of the preceding segment, in its
// region: not in another region that the peer may write.
func TestContinuationDamaged(t *testing.T) {
	conformance.Proves(t, "R5044-083", "R5044-085", "R5044-087")
	for name, at := range map[string]int{"length": 1, "last": 2, "opcode": 3, "STag": 7, "offset": 13, "first byte": 16, "last byte": 16 + bigLen - 1, "CRC": -1} {
		for _, piece := range []int{999, 20_000, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				s := crcScript(t, rnic.CRCOn)
				data := noise(3 * bigLen)
				mr, _ := s.pd.RegMR(make([]byte, 4*bigLen), rnic.RemoteWrite)
				other, _ := s.pd.RegMR(make([]byte, 4*bigLen), rnic.RemoteWrite)
				recv(t, s.qp, 1, make([]byte, 5))
				kept, foreign := bufOf(mr), bufOf(other)
				f := continued(mr, data)
				bad := f[1]
				switch {
				case at < 0:
					bad[len(bad)-1] ^= 1
				case name == "STag": // another region that the peer may write
					for i, v := range mpa.AppendFPDU(nil, false, tagged(0x81, 0x40, other.STag(), other.Base()+bigLen, nil))[4:16] {
						bad[4+i] = v
					}
				case name == "last":
					bad[at] ^= 0x40
				default:
					bad[at] ^= 4
				}
				b := append(append(append([]byte(nil), f[0]...), bad...), f[2]...)
				b = mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 0, []byte("small")))
				for len(b) > 0 {
					k := min(piece, len(b))
					s.say(b[:k])
					b = b[k:]
				}
				s.wantBytes(must.Hex(t, "0016414700000000000000020000000100000000200200007fe42585"))
				s.wantEOF()
				s.c.Close()
				<-s.qp.Done()
				if err := s.qp.Err(); !errors.Is(err, mpa.CheckCRC(0, []byte{1, 1, 1, 1})) {
					t.Fatalf("ended with %v", err)
				}
				if !bytes.Equal(foreign, make([]byte, len(foreign))) {
					t.Fatal("another region was written")
				}
				if !bytes.Equal(kept[:bigLen], data[:bigLen]) || !bytes.Equal(kept[2*bigLen+4*directMin:], make([]byte, 2*bigLen-4*directMin)) {
					t.Fatal("placed outside of the segment")
				}
				s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
			})
		}
	}
}

// TestContinuationRevoked: a region revoked in the middle of a Write's second segment gets no
// further byte.
func TestContinuationRevoked(t *testing.T) {
	s := crcScript(t, rnic.CRCOn)
	mem, data := make([]byte, 3*bigLen), bytes.Repeat([]byte{7}, 3*bigLen)
	mr, _ := s.pd.RegMR(mem, rnic.RemoteWrite)
	f := continued(mr, data)
	s.say(append(f[0], f[1][:30_000]...))
	mr.Invalidate()
	clear(mem)
	s.say(f[1][30_000:])
	s.wantEnd(t, term.New(term.DDPInvalidSTag, ""))
	if !bytes.Equal(mem, make([]byte, len(mem))) {
		t.Fatal("placed after Invalidate")
	}
}

// response returns the answer, in one large segment with its CRC, to a Read of all of sink.
func response(t *testing.T, s *script, sink *rnic.MR, data []byte) []byte {
	t.Helper()
	post(t, s.qp, rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: uint32(len(data)), RemoteSTag: 9})
	s.hear(2 + 46 + 4)
	return mpa.AppendFPDU(nil, true, tagged(0xc1, 0x42, sink.STag(), sink.Base(), data))
}

// TestResponseIsPlacedAsItComes: a response's first segment goes to the sink of the posted Read,
// known before its CRC; in strict mode it is placed when the CRC is good.
func TestResponseIsPlacedAsItComes(t *testing.T) {
	for mode, early := range map[rnic.CRCMode]bool{rnic.CRCOn: true, rnic.CRCStrict: false} {
		t.Run(mode.String(), func(t *testing.T) {
			s := crcScript(t, mode)
			data := noise(bigLen)
			sink, _ := s.pd.RegMR(make([]byte, len(data)), rnic.LocalWrite)
			b := response(t, s, sink, data)
			s.say(b[:40_000])
			if got := bytes.Equal(bufOf(sink)[:1000], data[:1000]); got != early {
				t.Fatalf("placed as it came: %v, want %v", got, early)
			}
			if n := s.cq.Poll(make([]rnic.WC, 1)); n > 0 {
				t.Fatal("completed before its CRC had come")
			}
			s.say(b[40_000:])
			s.want(t, rnic.OpRead, 3, rnic.WCSuccess)
			if !holds(sink, data) {
				t.Fatal("content")
			}
		})
	}
}

// TestResponseDamaged: any wrong bit in a response's first segment ends the stream because of its
// CRC. The Read does not succeed, and no byte is placed outside its sink.
func TestResponseDamaged(t *testing.T) {
	conformance.Proves(t, "R5044-083", "R5044-085", "R5044-087")
	for name, at := range map[string]int{"length": 1, "last": 2, "opcode": 3, "STag": 7, "offset": 13, "first byte": 16, "last byte": 16 + bigLen - 1, "CRC": -1} {
		for _, piece := range []int{999, 20_000, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				s := crcScript(t, rnic.CRCOn)
				data := noise(bigLen)
				mem := make([]byte, 3*bigLen)
				sink, _ := s.pd.RegMR(mem[bigLen:2*bigLen], rnic.LocalWrite|rnic.RemoteWrite)
				other, _ := s.pd.RegMR(make([]byte, bigLen), rnic.LocalWrite|rnic.RemoteWrite)
				foreign := bufOf(other)
				b := response(t, s, sink, data)
				switch {
				case at < 0:
					b[len(b)-1] ^= 1
				case name == "STag": // a region that the peer may write
					copy(b[4:16], mpa.AppendFPDU(nil, false, tagged(0xc1, 0x42, other.STag(), other.Base(), nil))[4:16])
				case name == "last":
					b[at] ^= 0x40
				default:
					b[at] ^= 4
				}
				b = mpa.AppendFPDU(b, true, untagged(0x41, 0x43, 0, 0, 1, 0, []byte("small")))
				for len(b) > 0 {
					k := min(piece, len(b))
					s.say(b[:k])
					b = b[k:]
				}
				s.wantBytes(must.Hex(t, "0016414700000000000000020000000100000000200200007fe42585"))
				s.wantEOF()
				s.c.Close()
				<-s.qp.Done()
				if err := s.qp.Err(); !errors.Is(err, mpa.CheckCRC(0, []byte{1, 1, 1, 1})) {
					t.Fatalf("ended with %v", err)
				}
				if !bytes.Equal(foreign, make([]byte, len(foreign))) {
					t.Fatal("another region was written")
				}
				if !bytes.Equal(mem[:bigLen], make([]byte, bigLen)) || !bytes.Equal(mem[2*bigLen:], make([]byte, bigLen)) {
					t.Fatal("placed outside of the sink")
				}
				s.want(t, rnic.OpRead, 3, rnic.WCFlushErr)
			})
		}
	}
}
