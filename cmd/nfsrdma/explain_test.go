// Unusable servers: the error has the cause and the remedy in one line.

package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// listen accepts connections on a loopback port and calls act for each.
func listen(t *testing.T, act func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
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

// unusable runs the program and checks that it fails with one line that contains want.
func unusable(t *testing.T, want, args string) {
	t.Helper()
	_, errs, code := try(t, strings.Fields(args)...)
	status := 1
	if strings.HasPrefix(args, "ls ") {
		status = 2 // as ls(1) for an operand
	}
	if code != status || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("nfsrdma %s: code %d, %q; want %q in one line", args, code, errs, want)
	}
}

// TestDeafServers: if a port accepts connections and sends nothing, the wait and the probe of the
// port both end.
func TestDeafServers(t *testing.T) {
	was := portprobe.Wait
	portprobe.Wait = time.Second
	t.Cleanup(func() { portprobe.Wait = was })
	deaf := listen(t, func(net.Conn) {})
	for _, args := range []string{"ls nfs://" + deaf + "/x", "ping nfs://" + deaf, "showmount nfs://" + deaf, "ls nfsrdma://" + deaf + "/x"} {
		unusable(t, "no answer", args+" --connect-timeout=200ms")
	}
}

func TestUnusableServers(t *testing.T) {
	other := listen(t, func(c net.Conn) { c.Close() })
	nobody := fmt.Sprint("127.0.0.1:", machine.Port(t))
	base, tcpBase := serve(t)
	host, tcp := strings.TrimPrefix(base, "nfsrdma://"), strings.TrimPrefix(tcpBase, "nfs://")
	ssh := listen(t, func(c net.Conn) { c.Write([]byte("SSH-2.0-x\r\n")) })
	web := listen(t, func(c net.Conn) {
		c.Read(make([]byte, 1024))
		c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		c.Close()
	})
	patient := listen(t, func(c net.Conn) {
		// like some servers, waits for the rest of a record that seems to be long
		go func() {
			b := make([]byte, 4096)
			if n, _ := c.Read(b); n > 12 && b[0] == 0x80 {
				c.Write(append([]byte{0x80, 0, 0, 24}, append(b[4:8:8], []byte{3: 1, 19: 0}...)...))
			}
		}()
	})
	for _, c := range []struct{ want, args string }{
		{"hung up", "ls nfsrdma://" + other + "/x"},
		{"hung up", "ls nfs://" + other + "/x"},
		{"is not RDMA but ONC RPC over TCP: use nfs://" + tcp + "/mem", "ls nfsrdma://" + tcp + "/mem"},
		{"nfsrdma://" + tcp + ": port", "ping nfsrdma://" + tcp},
		{"is the RDMA port (iWARP), not TCP: use nfsrdma://" + host + "/mem", "ls nfs://" + host + "/mem"},
		{"is SSH, not NFS", "ls nfs://" + ssh + "/x"},
		{"is SSH, not NFS", "ls nfsrdma://" + ssh + "/x"},
		{"is HTTP, not NFS", "ls nfs://" + web + "/x"},
		{"is HTTP, not NFS", "df nfsrdma://" + web + "/x"},
		{"is not RDMA but ONC RPC over TCP: use nfs://" + patient, "ls --connect-timeout=1h nfsrdma://" + patient + "/x"},
		{"host no.such.host.invalid: ", "ls nfsrdma://no.such.host.invalid/x"},
		{"--timeout -1s: must be", "ls --timeout -1s " + base + "/mem"},
		{"--connect-timeout 0s: must be", "ls --connect-timeout 0s " + base + "/mem"},
		{"open " + base + "/mem/none/d/.nfsrdma-bench", "bench " + base + "/mem/none/d"},
		{base + "/mem/a/b", "cat " + base + "/mem/a/b"},
		{"nfsrdma showmount " + host, "ls nfsrdma://" + host + "/nothing"},
		{"Is a directory", "cat " + base + "/mem"},
		{"an argument is missing", "ls"},
		// The rest of the line depends on the default TCP port, which another package's test may
		// use. TestRefusedPorts in package session checks it with a private port.
		{nobody + "/x': connection refused: ", "ls nfsrdma://" + nobody + "/x"},
	} {
		unusable(t, c.want, c.args)
	}
}

// --timeout ends the wait for a silent server, and the error names the server as typed.
func TestTimeout(t *testing.T) {
	_, base := serve(t)
	calls := 0
	url := "nfs://" + listen(t, func(c net.Conn) {
		up, err := net.Dial("tcp", strings.TrimPrefix(base, "nfs://"))
		if err != nil {
			return
		}
		defer up.Close()
		for b := make([]byte, 4096); calls < 4; calls++ { // a call and its reply are a record each
			n, err := c.Read(b)
			if err != nil {
				return
			}
			up.Write(b[:n])
			if n, err = up.Read(b); err != nil {
				return
			}
			c.Write(b[:n])
		}
	})
	out, errs, code := try(t, "ping", "--timeout", "3s", "-i", "0", "-c", "100", url)
	if code != 1 || errs != "nfsrdma: "+url+": ping: nfs server "+strings.TrimPrefix(url, "nfs://")+" does not answer: no answer in time\n" {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}
