// Servers that cannot be used: the error says why and what to do, in one line.

package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// listen takes connections on a loopback port and does with each what act does.
func listen(t *testing.T, act func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			act(c)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestUnusableServers(t *testing.T) {
	deaf := listen(t, func(net.Conn) {})
	other := listen(t, func(c net.Conn) { c.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	base, _ := serve(t)
	host := strings.TrimPrefix(base, "nfsrdma://")
	soon := "--connect-timeout=" + (200 * time.Millisecond).String()
	for _, c := range []struct{ want, args string }{
		{"no answer", "ls nfs://" + deaf + "/x " + soon},
		{"no answer", "ping nfs://" + deaf + " " + soon},
		{"no answer", "showmount nfs://" + deaf + " " + soon},
		{"no answer", "ls nfsrdma://" + deaf + "/x " + soon},
		{"hung up", "ls nfsrdma://" + other + "/x"},
		{"connection refused: is the server running", "ls nfsrdma://" + nobody + "/x"},
		{"nfsrdma showmount " + host, "ls nfsrdma://" + host + "/nothing"},
		{"Is a directory", "cat " + base + "/mem"},
		{"an argument is missing", "ls"},
	} {
		_, errs, code := try(t, strings.Fields(c.args)...)
		if code != 1 || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("nfsrdma %s: code %d, %q; want %q in one line", c.args, code, errs, c.want)
		}
	}
}
