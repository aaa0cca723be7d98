// The log of mounts, refusals and squashed roots has each only once, and is bounded.

package nfsserver_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A logged keeps log lines as "message key=value …", with the fields in its list.
type logged struct {
	fields []string

	mu    sync.Mutex
	lines []string // the lines, guarded by mu
}

func (l *logged) take(e machine.LogLine) {
	line := e.Message
	for _, name := range l.fields {
		if v, ok := e.Fields[name]; ok {
			if a, ok := v.(net.Addr); ok { // leaves out the port
				v, _, _ = net.SplitHostPort(a.String())
			}
			line += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// count returns how many lines begin with text.
func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.HasPrefix(line, text) {
			n++
		}
	}
	return n
}

// record makes a logged that keeps the lines of a test.
func record(t *testing.T, fields ...string) *logged {
	t.Helper()
	l := &logged{fields: fields}
	machine.CaptureLog(t, l.take)
	return l
}

// TestLogger: Options.Logger receives all lines, including the transport's. The default logger
// receives none.
func TestLogger(t *testing.T) {
	others, own := record(t), &logged{}
	h := serve(t, nfsserver.Options{Squash: believeAll, Logger: machine.LogTo(own.take), Exports: []nfsserver.Export{
		{Name: "/x", FS: memory(t)}, {Name: "/late", Open: func() (nfsserver.FS, error) { return memory(t), nil }}}})
	h.dial(root).mount("/x")
	c, err := net.Dial("tcp", h.svc.TCPAddr.String())
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatalf("Write: %v", err)
	}
	_, _ = c.Read(make([]byte, 1)) // returns when the server closes the connection
	for _, line := range []string{"mount", "connection cut off", "served from now on"} {
		for end := time.Now().Add(time.Minute); own.count(line) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if got := own.count(line); got != 1 {
			t.Errorf("%d lines of %q, want 1", got, line)
		}
	}
	if got := others.count(""); got != 0 {
		t.Errorf("%d lines at the default logger, want none", got)
	}
}

// TestLoggerOfTheProgram: without a Logger each line goes to the default logger at that time. A
// default logger from before slog.SetDefault would turn each line into text with level INFO.
func TestLoggerOfTheProgram(t *testing.T) {
	tree, open, opened := memory(t), make(chan error), make(chan struct{})
	answer := func() (nfsserver.FS, error) {
		if err := <-open; err != nil {
			return nil, err
		}
		close(opened)
		return tree, nil
	}
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/late", Open: answer}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	l := record(t)
	open <- fmt.Errorf("away")
	open <- nil
	<-opened
	if err := srv.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := l.count("not served until this is repaired: away"); got != 1 {
		t.Errorf("%d lines of the failure at the default logger, want 1", got)
	}
}

func TestLogOfMounts(t *testing.T) {
	l := record(t, "peer", "transport", "vers", "export", "dir", "status")
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x 127.0.0.1(rw,insecure)\n")})
	one, two := h.dialFrom("127.0.0.1", user), h.dialFrom("127.0.0.2", user)
	one["rdma"].mount("/x")
	d := one["tcp"].mount("/x")
	d.want("MKDIR", d.mkdir(d.root, "d\x1b\n", 0o755).Status, nfs3.OK)
	one["tcp"].mount("/x/d\x1b\n")
	if st := one["tcp"].mnt("/y").Status; st != mount3.ErrNoEnt {
		t.Errorf("MNT /y: %v", st)
	}
	if st := two["rdma"].mnt("/x").Status; st != mount3.ErrAcces {
		t.Errorf("MNT from elsewhere: %v", st)
	}
	one["tcp"].mountCall(mount3.ProcUmnt, &mount3.PathArgs{Path: "/x"}, nil)
	one["tcp"].mountCall(mount3.ProcUmnt, &mount3.PathArgs{Path: "/x"}, nil) // no longer mounted
	one["rdma"].mountCall(mount3.ProcUmntall, nil, nil)
	for want, n := range map[string]int{
		"mount peer=127.0.0.1 transport=rdma vers=3 export=/x dir=/x":                       1,
		"mount peer=127.0.0.1 transport=tcp vers=3 export=/x dir=/x/d\x1b\n":                1,
		"mount refused peer=127.0.0.1 transport=tcp vers=3 dir=/y status=":                  1,
		"client refused: the exports file names no client with this address peer=127.0.0.2": 1,
		"unmount peer=127.0.0.1 transport=tcp dir=/x":                                       1,
		"unmount peer=127.0.0.1 transport=rdma dir=/x/d\x1b\n":                              1,
		"unmount ":    2,
		"mount peer=": 3,
	} {
		if got := l.count(want); got != n {
			t.Errorf("%d lines of %q, want %d: %q", got, want, n, l.lines)
		}
	}
}

// TestLogIsBounded: the log has only some of a thousand mounts, and still has room for lines about
// other calls.
func TestLogIsBounded(t *testing.T) {
	l := record(t)
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x *(rw,insecure)\n")})
	c := h.dial(user)
	for range 1000 {
		c.mnt("/x")
		c.mountCall(mount3.ProcUmnt, &mount3.PathArgs{Path: "/x"}, nil)
	}
	for _, what := range []string{"mount", "unmount"} {
		// the bound is 32 lines, and one more for each second that this test takes
		if n := l.count(what); n < 1 || n > 500 {
			t.Errorf("%d lines of %s", n, what)
		}
	}
}

// TestLogOfSquashedRoot: one line for each client and export, whatever calls root makes on all its
// connections. There is none for other users, or if root stays root.
func TestLogOfSquashedRoot(t *testing.T) {
	l := record(t, "peer", "export", "as-uid")
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x *(rw,insecure)\n/y *(rw,insecure,anonuid=77)\n/z *(rw,insecure,no_root_squash)\n")})
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		for _, cred := range h.dialFrom(from, user) {
			cred.mount("/x")
			cred.create(cred.root, "by-user", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
		}
		for range 2 {
			for _, c := range h.dialFrom(from, root) {
				for _, export := range []string{"/x", "/y", "/z"} {
					c.mount(export)
					for i := range 20 {
						c.create(c.root, fmt.Sprint("f", i), nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
					}
				}
			}
		}
	}
	const line = "root of a client is squashed (root_squash)"
	if n := l.count(line); n != 4 {
		t.Errorf("%d lines: %q", n, l.lines)
	}
	for _, want := range []string{"127.0.0.1 export=/x as-uid=65534", "127.0.0.1 export=/y as-uid=77", "127.0.0.2 export=/x as-uid=65534", "127.0.0.2 export=/y as-uid=77"} {
		if n := l.count(line + ": no_root_squash in the exports file, or --no-root-squash (Squash.NoRootSquash in Go), leaves it root peer=" + want); n != 1 {
			t.Errorf("%d lines of %s: %q", n, want, l.lines)
		}
	}
}
