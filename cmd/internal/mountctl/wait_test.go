// The answers from the process of a mount, and their results in a command.

package mountctl

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestAnswersToWait: an invalid answer is no success, and causes no panic.
func TestAnswersToWait(t *testing.T) {
	for answer, want := range map[string]string{
		`{"end":{"error":""}}`:        "",
		`{"end":{"error":"2 files"}}`: "2 files",
		`{"held":{"kept":false,"error":""}}` + "\n" + `{"end":{"error":""}}`: "",
		`{"held":{"kept":true,"error":""}}`:                                  ErrHeld.Error(),
		`{"held":{"kept":true,"error":"disk full"}}`:                         "disk full",
		`{}`:           "may be lost",
		`{"stats":{}}`: "may be lost",
		`nonsense`:     "may be lost",
		``:             "may be lost",
	} {
		ours, theirs := pair(t)
		c := &Conn{ours, bufio.NewReader(ours)}
		go func() {
			_, _ = bufio.NewReader(theirs).ReadString('\n')
			_, _ = theirs.Write([]byte(answer + "\n"))
			theirs.Close()
		}()
		err := c.Wait(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
		if errors.Is(err, ErrHeld) != strings.Contains(answer, `"kept":true,"error":""`) {
			t.Errorf("%s: %v", answer, err)
		}
		c.Close()
	}
}

// pair returns two ends of a socket.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	name := t.TempDir() + "/s"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatalf("net.ListenUnix: %v", err)
	}
	defer l.Close()
	if a, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"}); err != nil {
		t.Fatalf("net.DialUnix: %v", err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatalf("AcceptUnix: %v", err)
	}
	return a, b
}

// TestAskedTwice: a repeated request gets one answer, and starts no second look-up while the first
// one runs.
func TestAskedTwice(t *testing.T) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	theirs, ours := pair(t)
	defer ours.Close()
	s := &Server{ended: make(chan struct{}), stats: func() any { return 1 }, held: func(context.Context) (bool, error) {
		entered <- struct{}{}
		<-leave
		return true, nil
	}}
	s.conns.Go(func() { s.answer(theirs) })
	if _, err := ours.Write([]byte("held\nheld\nstats\n")); err != nil {
		t.Fatalf("ours.Write: %v", err)
	}
	in := bufio.NewReader(ours)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "stats") {
		// both requests were read before this reply
		t.Errorf("%q, %v", line, err)
	}
	<-entered
	close(leave)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, `"kept":true`) {
		t.Errorf("%q, %v", line, err)
	}
	close(s.ended)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, `"end"`) {
		t.Errorf("%q, %v", line, err)
	}
	s.conns.Wait()
	if n := len(entered); n != 0 {
		t.Errorf("%d look-ups too many", n)
	}
}
