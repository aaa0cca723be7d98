// Connecting to the server: the transport, the retried errors, and the lines meanwhile.

package mounter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// told holds the lines that are shown to the user.
type told []string

func (l *told) add(line string) { *l = append(*l, line) }

// tried returns a callback that ends the test if an attempt is repeated.
func tried(t *testing.T) func(error) {
	return func(err error) { t.Fatalf("tried again after %v", err) }
}

// A missing server gives one line with the name as typed, and no retry unless requested.
func TestRefusedConnection(t *testing.T) {
	r := requestOf(t, "tcp", target(nfsclient.TCP, closedPort(t)))
	var lines told
	fsys, err := r.connect(t.Context(), newSession(t), nil, lines.add, tried(t))
	says(t, err, r.Spec, "connection refused")
	if !errors.As(err, new(session.Unreachable)) || fsys != nil || len(lines) > 0 {
		t.Errorf("%v, %q", err, lines)
	}
}

// If the time of retry= is over before the next attempt, no further attempt is made.
func TestRetryIsOver(t *testing.T) {
	r := requestOf(t, "tcp", target(nfsclient.TCP, closedPort(t)))
	r.Options.Retry = firstRetryWait / 2
	_, err := r.connect(t.Context(), newSession(t), nil, new(told).add, tried(t))
	says(t, err, r.Spec, "connection refused")
}

// A server that starts during the retries is mounted, and the first failure was reported once.
func TestServerComesUpLater(t *testing.T) {
	addr := closedPort(t)
	r := requestOf(t, "tcp,retry=60", target(nfsclient.TCP, addr))
	var failures told
	fsys, err := r.connect(t.Context(), newSession(t), nil, new(told).add, func(err error) {
		failures.add(err.Error())
		serveOn(t, addr.String())
	})
	must.Succeed(t, err)
	defer fsys.Client().Close()
	if len(failures) != 1 || !strings.HasPrefix(failures[0], r.Spec+": connection refused") {
		t.Errorf("%q", failures)
	}
	if _, err := fsys.Stat(t.Context(), "."); err != nil {
		t.Errorf("it does not work: %v", err)
	}
}

// The wait between two attempts ends with the context.
func TestInterruptedRetry(t *testing.T) {
	r := requestOf(t, "tcp,bg", target(nfsclient.TCP, closedPort(t)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := r.connect(ctx, newSession(t), nil, new(told).add, func(error) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Permanent errors are not retried, however long retry= is.
func TestWhatIsNotTriedAgain(t *testing.T) {
	there := target(nfsclient.TCP, serveOn(t, "127.0.0.1:0"))
	for path, words := range map[string][]string{
		"/none":     {"no such export"},
		"/mem/none": {"No such file or directory"},
	} {
		to := there
		to.Path = path
		r := requestOf(t, "tcp,bg", to)
		_, err := r.connect(t.Context(), newSession(t), nil, new(told).add, tried(t))
		says(t, err, r.Spec, words...)
		if errors.As(err, new(session.Unreachable)) {
			t.Errorf("%v passes for a server that is not reached", err)
		}
	}
}

// A directory below the export's root can be mounted.
func TestDirectoryOfAnExport(t *testing.T) {
	to := target(nfsclient.TCP, serveOn(t, "127.0.0.1:0"))
	root, err := requestOf(t, "tcp", to).connect(t.Context(), newSession(t), nil, new(told).add, nil)
	must.Succeed(t, err)
	defer root.Client().Close()
	must.Succeed(t, root.MkdirAll(t.Context(), "a/b", 0o755))
	must.Succeed(t, root.WriteFile(t.Context(), "a/b/f", []byte("x"), 0o644))
	to.Path = "/mem/a/b"
	below, err := requestOf(t, "tcp", to).connect(t.Context(), newSession(t), nil, new(told).add, nil)
	must.Succeed(t, err)
	defer below.Client().Close()
	if b, err := below.ReadFile(t.Context(), "f"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// With proto=auto, TCP is used if RDMA is refused, and the line about it has the reason.
func TestAutoTakesTCPAfterRDMA(t *testing.T) {
	r := requestOf(t, "proto=auto", target(nfsclient.RDMA, closedPort(t)), target(nfsclient.TCP, serveOn(t, "127.0.0.1:0")))
	var lines told
	fsys, err := r.connect(t.Context(), newSession(t), nil, lines.add, tried(t))
	must.Succeed(t, err)
	defer fsys.Client().Close()
	if len(lines) != 1 || !strings.HasPrefix(lines[0], r.Spec+": over TCP (RDMA: connection refused") || strings.Count(lines[0], r.Spec) != 1 {
		t.Errorf("%q", lines)
	}
	if _, err := fsys.Stat(t.Context(), "."); err != nil {
		t.Errorf("it does not work: %v", err)
	}
}

// With proto=auto and neither transport, the line has both reasons, and the mount is retried,
// because the server may start later.
func TestAutoWithoutAServer(t *testing.T) {
	addr := closedPort(t)
	r := requestOf(t, "proto=auto", target(nfsclient.RDMA, addr), target(nfsclient.TCP, addr))
	var lines told
	_, err := r.attempt(t.Context(), newSession(t), nil, lines.add)
	says(t, err, r.Spec, "connection refused: nothing listens on "+addr.String()+" (RDMA) and "+addr.String()+" (TCP): start the server")
	if !errors.As(err, new(session.Unreachable)) || len(lines) > 0 {
		t.Errorf("%v, %q", err, lines)
	}
}

// The first transport that works is used, and the second is not tried.
func TestAutoTakesTheFirst(t *testing.T) {
	r := requestOf(t, "proto=auto", target(nfsclient.TCP, serveOn(t, "127.0.0.1:0")), target(nfsclient.RDMA, closedPort(t)))
	var lines told
	fsys, err := r.attempt(t.Context(), newSession(t), nil, lines.add)
	must.Succeed(t, err)
	defer fsys.Client().Close()
	if len(lines) != 1 || lines[0] != r.Spec+": over TCP" {
		t.Errorf("%q", lines)
	}
}

// When the context ends, its error is returned, whichever transport was tried.
func TestInterruptedAttempt(t *testing.T) {
	r := requestOf(t, "proto=auto", target(nfsclient.TCP, closedPort(t)), target(nfsclient.TCP, serveOn(t, "127.0.0.1:0")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if fsys, err := r.connect(ctx, newSession(t), nil, new(told).add, tried(t)); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "(RDMA") {
		t.Errorf("%v, %v", fsys, err)
	}
}
