// Arbitrary bytes as requests.

package fuseloop

import (
	"encoding/binary"
	"io"
	"log"
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// An arbitrary message breaks nothing. It gets one well-formed reply with its number, or none if
// its operation has no reply.
func FuzzRequests(f *testing.F) {
	for op := range uint32(54) {
		f.Add(message(op, 9, 1, make([]byte, 64)...))
	}
	f.Add([]byte{})
	f.Add(readMessage(9, 1, 0, 4096))
	f.Add(readMessage(9, 1, 0, 4096)[:50])
	f.Add(readMessage(9, 1, 0, 1<<32-1))
	f.Add(interruptMessage(9, 8))
	f.Add(message(opBatchForget, 9, 0, words(uint32(1<<31), uint32(0), uint64(5))...))
	f.Add(message(opGetxattr, 9, 1, append(words(uint32(1<<31), uint32(0)), "user.x\x00"...)...))
	log.SetOutput(io.Discard)
	f.Cleanup(func() { log.SetOutput(os.Stderr) })

	fs := newTestFS()
	fs.read = func(_ <-chan struct{}, _ *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
		return fuse.ReadResultData(p[:min(len(p), 4096)]), fuse.OK
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) > 64<<10 {
			return
		}
		if waits(msg) {
			return
		}
		k := start(t, fs)
		n := copy(k.s.next.b, msg)
		if r := k.s.accept(n); r != nil {
			k.s.workers.do(r)
		}
		k.s.workers.end()
		k.s.inflight.mu.Lock()
		left := len(k.s.inflight.all)
		k.s.inflight.mu.Unlock()
		if left > 0 {
			t.Errorf("%d requests are left", left)
		}
		defer k.s.dev.file.Close()
		if n < inHeaderLen {
			k.silent()
			return
		}
		switch h := parseHeader(msg); h.opcode {
		case opForget, opBatchForget, 41: // 41: NOTIFY_REPLY
		default:
			if out := k.next(); out.unique != h.unique || out.status > 0 {
				t.Errorf("%+v", out)
			}
		}
		k.silent()
	})
}

// waits reports whether a message gets no reply by itself: a SETLKW, which waits for its INTERRUPT,
// or an INTERRUPT that names itself.
func waits(msg []byte) bool {
	if len(msg) < interruptLen {
		return false
	}
	h := parseHeader(msg)
	return h.opcode == opSetlkw || h.opcode == opInterrupt && binary.NativeEndian.Uint64(msg[interruptedAt:]) == h.unique
}
