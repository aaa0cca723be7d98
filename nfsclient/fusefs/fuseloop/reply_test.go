// READ replies: their data may be in any memory, and contains nothing else.

package fuseloop

import (
	"bytes"
	"log"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A pieces is a READ result with its data in several slices of its own memory.
type pieces struct {
	list   [][]byte
	status fuse.Status
	done   atomic.Int32
}

func (p *pieces) Size() int                          { return len(bytes.Join(p.list, nil)) }
func (p *pieces) Bytes([]byte) ([]byte, fuse.Status) { return bytes.Join(p.list, nil), p.status }
func (p *pieces) Slices() ([][]byte, fuse.Status)    { return p.list, p.status }
func (p *pieces) Done()                              { p.done.Add(1) }

func TestReadReplies(t *testing.T) {
	const size = 5000
	data := bytes.Repeat([]byte("0123456789"), size/10)
	many := func(n int) (list [][]byte) {
		for i := range n {
			list = append(list, data[i*10:i*10+10])
		}
		return list
	}
	for _, c := range []struct {
		name string
		give func(p []byte) (fuse.ReadResult, fuse.Status)
		want int
		err  unix.Errno
	}{
		{"in place", func(p []byte) (fuse.ReadResult, fuse.Status) { return fuse.ReadResultData(p[:copy(p, data)]), fuse.OK }, size, 0},
		{"in place, short", func(p []byte) (fuse.ReadResult, fuse.Status) {
			return fuse.ReadResultData(p[:copy(p, data[:7])]), fuse.OK
		}, 7, 0},
		{"in place, as a slice", func(p []byte) (fuse.ReadResult, fuse.Status) {
			return &pieces{list: [][]byte{p[:copy(p, data)]}}, fuse.OK
		}, size, 0},
		{"elsewhere", func([]byte) (fuse.ReadResult, fuse.Status) { return fuse.ReadResultData(data), fuse.OK }, size, 0},
		{"one slice", func([]byte) (fuse.ReadResult, fuse.Status) { return &pieces{list: [][]byte{data[:99]}}, fuse.OK }, 99, 0},
		{"many slices, one empty", func([]byte) (fuse.ReadResult, fuse.Status) { return &pieces{list: append(many(9), nil)}, fuse.OK }, 90, 0},
		{"more than was asked for", func([]byte) (fuse.ReadResult, fuse.Status) { return &pieces{list: [][]byte{data, data}}, fuse.OK }, size, 0},
		{"the end of the file", func([]byte) (fuse.ReadResult, fuse.Status) { return fuse.ReadResultData(nil), fuse.OK }, 0, 0},
		{"nothing", func([]byte) (fuse.ReadResult, fuse.Status) { return nil, fuse.OK }, 0, 0},
		{"an error", func([]byte) (fuse.ReadResult, fuse.Status) { return nil, fuse.EIO }, 0, unix.EIO},
		{"a late error", func([]byte) (fuse.ReadResult, fuse.Status) { return &pieces{status: fuse.EBADF}, fuse.OK }, 0, unix.EBADF},
		{"both", func(p []byte) (fuse.ReadResult, fuse.Status) { return fuse.ReadResultData(p), fuse.EPERM }, 0, unix.EPERM},
		{"a panic", func([]byte) (fuse.ReadResult, fuse.Status) { panic("in READ") }, 0, unix.EIO},
	} {
		f := newTestFS()
		var given fuse.ReadResult
		f.read = func(_ <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
			got := [5]uint64{in.NodeId, in.Fh, in.Offset, uint64(in.Size), uint64(len(p))}
			if want := [5]uint64{2, 77, 88, size, size}; got != want {
				t.Errorf("%s: node, handle, offset, size and buffer: got %v, want %v", c.name, got, want)
			}
			r, st := c.give(p)
			given = r
			return r, st
		}
		k := start(t, f)
		k.serve()
		k.send(readMessage(10, 77, 88, size))
		out := k.next()
		if out.unique != 10 || out.status != -int32(c.err) {
			t.Errorf("%s: reply to %d with status %d, want 10 and %d", c.name, out.unique, out.status, -int32(c.err))
		}
		if !bytes.Equal(out.body, data[:c.want]) {
			t.Errorf("%s: got %d bytes, want the first %d of the data", c.name, len(out.body), c.want)
		}
		k.cut()
		if p, ok := given.(*pieces); ok && p.done.Load() != 1 {
			t.Errorf("%s: released %d times", c.name, p.done.Load())
		}
	}
}

// A reply refused by the device is followed by an error, so the program does not wait forever.
func TestReplyThatIsRefused(t *testing.T) {
	f := newTestFS()
	large := make([]byte, 100<<10)
	f.read = func(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) {
		return fuse.ReadResultData(large), fuse.OK
	}
	k := start(t, f)
	if err := unix.SetsockoptInt(k.s.dev.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10); err != nil {
		t.Fatalf("setsockopt: %v", err)
	}
	k.serve()
	k.send(readMessage(10, 1, 0, uint32(len(large))))
	if out := k.next(); out.unique != 10 || out.status != -int32(unix.EIO) {
		t.Errorf("%+v", out)
	}
}

// A panic in READ is logged with its location, as go-fuse does for other operations.
func TestPanicInReadIsLocated(t *testing.T) {
	f := newTestFS()
	f.read = func(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) { panic("in READ") }
	k := start(t, f)
	var said bytes.Buffer
	k.s.log = log.New(&said, "", 0)
	k.serve()
	k.send(readMessage(10, 1, 0, 4096))
	k.next()
	k.cut()
	if text := said.String(); !strings.Contains(text, "in READ") || !strings.Contains(text, "TestPanicInReadIsLocated") {
		t.Errorf("said: %s", text)
	}
}

// READ does not allocate in the steady state.
func TestReadDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop some of what they are given under the race detector")
	}
	f := newTestFS()
	result := &pieces{list: make([][]byte, 1)}
	f.read = func(_ <-chan struct{}, _ *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
		result.list[0] = p
		return result, fuse.OK
	}
	k := start(t, f)
	k.serve()
	msg, out := readMessage(10, 1, 0, 4096), make([]byte, 8<<10)
	n := testing.AllocsPerRun(2000, func() {
		if _, err := k.socket.Write(msg); err != nil {
			t.Fatalf("write: %v", err)
		}
		if n, err := k.socket.Read(out); err != nil || n != outHeaderLen+4096 {
			t.Fatal(n, err)
		}
	})
	if n >= 1 {
		t.Errorf("%v allocations for each READ", n)
	}
}

func TestNotices(t *testing.T) {
	k := start(t, newTestFS())
	k.serve()
	for _, c := range []struct {
		name string
		send func() fuse.Status
		code int32
		want []byte
	}{
		{"inode", func() fuse.Status { return k.s.InodeNotify(9, -1, 0) }, 2, words(uint64(9), ^uint64(0), uint64(0))},
		{"store", func() fuse.Status { return k.s.StoreNotify(9, 7, []byte("ab")) }, 4, append(words(uint64(9), uint64(7), uint32(2), uint32(0)), 'a', 'b')},
		{"entry", func() fuse.Status { return k.s.EntryNotify(9, "ab") }, 3, append(words(uint64(9), uint32(2), uint32(0)), 'a', 'b', 0)},
		{"prune", func() fuse.Status { return k.s.PruneNotify([]uint64{5, 6}) }, 9, words(uint32(2), uint32(0), uint64(0), uint64(5), uint64(6))},
	} {
		if st := c.send(); st != fuse.OK {
			t.Errorf("%s: %v", c.name, st)
		}
		out := k.next()
		if out.unique != 0 || out.status != c.code {
			t.Errorf("%s: number %d and code %d, want 0 and %d", c.name, out.unique, out.status, c.code)
		}
		if !bytes.Equal(out.body, c.want) {
			t.Errorf("%s: got % x, want % x", c.name, out.body, c.want)
		}
	}
	if st := k.s.PruneNotify(nil); st != fuse.OK {
		t.Error(st)
	}
	k.s.settings.Minor = 44
	if st := k.s.PruneNotify([]uint64{5}); st != fuse.ENOSYS {
		t.Errorf("a kernel without it: %v", st)
	}
	k.silent()
}

func TestHelperWords(t *testing.T) {
	o := testOptions()
	o.FsName, o.Name, o.AllowOther, o.Options = `a,b\c`, "nfsrdma", true, []string{"ro", "noatime"}
	if got := strings.Join(helperWords(o), ","); got != `ro,noatime,allow_other,fsname=a\,b\\c,subtype=nfsrdma,max_read=1048576` {
		t.Error(got)
	}
}
