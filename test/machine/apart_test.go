// A network of one's own has a port 111 and a /run of its own.

package machine

import (
	"net"
	"os"
	"strings"
	"testing"
)

// outsideEnv is the network that TestApart has begun in.
const outsideEnv = "NFSRDMA_TEST_OUTSIDE"

// TestApart: where it is, port 111 is free and /run empty, and not so for anybody else.
func TestApart(t *testing.T) {
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(apartEnv) == "" {
		t.Setenv(outsideEnv, network)
	}
	if !Apart(t) {
		return
	}
	if network == os.Getenv(outsideEnv) {
		t.Error("the network is not its own")
	}
	l, err := net.Listen("tcp", ":111")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := net.Dial("tcp", "127.0.0.1:111"); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if list, err := os.ReadDir("/run"); err != nil || len(list) > 0 {
		t.Errorf("/run has %v, %v", list, err)
	}
}

// TestApartTells: what fails there, is not found or says nothing of having passed does not pass here.
func TestApartTells(t *testing.T) {
	if os.Getenv(apartEnv) != "" {
		t.Fatal("as it is to be")
	}
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
	if out, err := apart(t.Name()); err == nil || !strings.Contains(out, "as it is to be") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := apart("TestNothing"); err != nil || strings.Contains(out, "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}
