// Refusals by servers that squash, are read-only, or grant everything: the explanations when a
// command ends.

package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// serveAs serves a tree in memory, whose root belongs to this user, and returns its URL over TCP.
func serveAs(t *testing.T, squash nfsserver.Squash, readOnly bool) string {
	t.Helper()
	tree := memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o755})
	_, tcp := serveExport(t, squash, nfsserver.Export{Name: "/mem", FS: tree, ReadOnly: readOnly})
	return tcp
}

func TestAdvice(t *testing.T) {
	uid := uint32(os.Geteuid())
	nobody := nfsserver.Squash{All: true, UID: nfsserver.Nobody, GID: nfsserver.Nobody}
	self := nfsserver.Squash{All: true, UID: uid, GID: uint32(os.Getegid())}
	squashed := ":/mem: perhaps uid "
	if uid == 0 {
		squashed = ":/mem: root acts as another user there (root_squash; to change it: no_root_squash in exports(5); nfsrdmad: --no-root-squash)"
	}
	for name, c := range map[string]struct {
		squash   nfsserver.Squash
		readOnly bool
		want     string // the explanation, in one line; "": none
	}{
		"squashed":  {nobody, false, squashed},
		"read-only": {self, true, ":/mem: the export is read-only for this host"},
		"itself":    {self, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := serveAs(t, c.squash, c.readOnly)
			var stderr strings.Builder
			s := newSession(t, &stderr)
			// two errors have the same explanation; the missing name has none
			err := s.EachOperand(t.Context(), s.Reporter("mkdir"), "cannot create directory", []string{url + "/mem/a", url + "/mem/b", url + "/mem/none/c"}, func(o Operand) error {
				return o.FS.Mkdir(t.Context(), o.Path, 0o755)
			})
			if !errors.Is(err, cli.ErrReported) {
				t.Fatalf("%v, want an error", err)
			}
			s.Advise(t.Context())
			var reasons []string
			for line := range strings.Lines(stderr.String()) {
				if strings.Contains(line, ":/mem: ") {
					reasons = append(reasons, line)
				}
			}
			switch {
			case c.want == "" && len(reasons) > 0:
				t.Errorf("reasons without a cause: %q", reasons)
			case c.want != "" && len(reasons) != 1:
				t.Errorf("reasons: %q, want one", reasons)
			case c.want != "" && !strings.Contains(reasons[0], c.want):
				t.Errorf("reason: %q, want %q", reasons[0], c.want)
			}
		})
	}
}

// TestAdviceOfAMode: if the mode denies writing, the message says so and names the directory. Root
// has all rights, so under root the test acts as another user.
func TestAdviceOfAMode(t *testing.T) {
	if os.Geteuid() != 0 {
		adviceOfAMode(t)
		return
	}
	machine.AsUser(t, 4343, func() { adviceOfAMode(t) })
}

func adviceOfAMode(t *testing.T) {
	t.Helper()
	tree := memfs.New(memfs.Options{UID: 4242, GID: 4242, Mode: 0o755})
	_, url := serveExport(t, nfsserver.Squash{TrustLocal: true}, nfsserver.Export{Name: "/mem", FS: tree})
	var stderr strings.Builder
	s := newSession(t, &stderr)
	err := s.EachOperand(t.Context(), s.Reporter("mkdir"), "cannot create directory", []string{url + "/mem/a"}, func(o Operand) error {
		return o.FS.Mkdir(t.Context(), o.Path, 0o755)
	})
	if !errors.Is(err, cli.ErrReported) {
		t.Errorf("%v, want an error", err)
	}
	s.Advise(t.Context())
	want := fmt.Sprintf(":/mem: uid %d is not allowed to write in the root directory of the export (mode 0755, owner 4242): chown or chmod it on the server", os.Geteuid())
	if !strings.Contains(stderr.String(), want) {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

// TestAdviceOfLocalErrors: an error of this machine is not explained as a server's refusal.
func TestAdviceOfLocalErrors(t *testing.T) {
	url := serveAs(t, nfsserver.Squash{All: true, UID: nfsserver.Nobody, GID: nfsserver.Nobody}, false)
	var stderr strings.Builder
	s := newSession(t, &stderr)
	if _, err := s.Operand(t.Context(), url+"/mem"); err != nil {
		t.Fatalf("Operand: %v", err)
	}
	s.Note(cli.WithCause(syscall.EACCES, "cannot open 'x': Permission denied"))
	s.Advise(t.Context())
	if stderr.Len() > 0 {
		t.Errorf("%q, want nothing", stderr.String())
	}
}

// TestMountRefusedForItsPort: a server that requires ports below 1024 only reports "access denied";
// the list of clients shows that the port is the cause.
func TestMountRefusedForItsPort(t *testing.T) {
	anyPort := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	rules := func(text string) *exports.Export {
		f, err := exports.Parse("f", []byte(text))
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		return f.Exports[0]
	}
	const port = "over TCP it takes a source port below 1024, which only root has: run this as root, use RDMA, or export it with insecure"
	for name, c := range map[string]struct {
		squash nfsserver.Squash
		rules  *exports.Export
		want   string
	}{
		"for all hosts":    {nfsserver.Squash{TrustLocal: true}, rules("/mem *(rw,secure)"), "it is exported to all hosts, but " + port},
		"for another host": {nfsserver.Squash{TrustLocal: true}, rules("/mem 192.0.2.1(rw)"), "and add this host (exports(5)); if it is among them, " + port},
		"for no user":      {nfsserver.Squash{TrustLocal: true, ReservedPort: true}, nil, "one with --secure accepts ports below 1024 only, so run this as root, or use RDMA"},
	} {
		_, url := serveExport(t, c.squash, nfsserver.Export{Name: "/mem", FS: memfs.New(memfs.Options{}), Rules: c.rules})
		s := newSession(t, new(strings.Builder))
		to, err := s.Target(url + "/mem")
		if err != nil {
			t.Fatalf("Target: %v", err)
		}
		_, err = s.OpenWith(t.Context(), url, to, nfsclient.Options{Transport: nfsclient.TCP, Dial: anyPort})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
