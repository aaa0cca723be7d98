// Two hosts: network namespaces joined by a pair of interfaces.

package roce

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// twoHosts moves the test into a new network namespace. It returns a function that runs functions
// in another one, with an interface to the first. Each has an IPv4 and an IPv6 address.
func twoHosts(t *testing.T) (here, there [2]netip.Addr, inOther func(func())) {
	t.Helper()
	machine.NeedRoot(t, "network namespaces need root")
	if _, err := exec.LookPath("ip"); err != nil {
		machine.Skip(t, "there is no ip command (iproute2)")
	}
	rnictest.OwnNetwork(t)
	work, other := make(chan func()), make(chan string)
	go func() {
		runtime.LockOSThread() // never unlocked: the namespace ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("a second network namespace: %v", err)
		}
		other <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		for f := range work {
			f()
		}
	}()
	t.Cleanup(func() { close(work) })
	inOther = func(f func()) {
		done := make(chan struct{})
		work <- func() { defer close(done); f() }
		<-done
	}
	run := func(lines ...string) {
		for _, line := range lines {
			words := strings.Fields(line)
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", line, err, out)
			}
		}
	}
	run("ip link add pair0 type veth peer name pair1 netns "+<-other, "ip addr add 10.91.7.1/24 dev pair0",
		"ip addr add fd91:7::1/64 dev pair0 nodad", "ip link set pair0 up")
	inOther(func() {
		run("ip addr add 10.91.7.2/24 dev pair1", "ip addr add fd91:7::2/64 dev pair1 nodad", "ip link set pair1 up", "ip link set lo up")
	})
	if t.Failed() {
		t.FailNow()
	}
	linkUp(t, "pair0")
	inOther(func() { linkUp(t, "pair1") })
	a := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	return [2]netip.Addr{a("10.91.7.1"), a("fd91:7::1")}, [2]netip.Addr{a("10.91.7.2"), a("fd91:7::2")}, inOther
}

// linkUp waits until an interface has a link and receives IPv6 multicast: before that the kernel
// drops it.
func linkUp(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		link, err := exec.Command("ip", "-o", "link", "show", name).CombinedOutput()
		route, err2 := exec.Command("ip", "-6", "route", "show", "table", "local", "dev", name).CombinedOutput()
		switch {
		case err == nil && err2 == nil && strings.Contains(string(link), "state UP") && strings.Contains(string(route), "ff00::/8"):
			return
		case time.Now().After(end):
			t.Errorf("%s has no link: %s%s", name, link, route)
			return
		}
	}
}

// TestMulticastBetweenHosts: members on another host than the sender's get its datagrams, over
// IPv4, IPv6 and link-local addresses.
func TestMulticastBetweenHosts(t *testing.T) {
	conformance.Proves(t, "IBU-182", "IBU-183")
	here, there, inOther := twoHosts(t)
	for i, groups := range [][]string{{"239.1.2.3", "224.0.0.99"}, {"ff15::1:7", "ff02::99"}} {
		for _, g := range groups {
			more := func() (s *side) {
				inOther(func() { s = datagramSide(t, there[i]) })
				if s == nil {
					t.FailNow()
				}
				return s
			}
			multicasts(t, datagramSide(t, here[i]), more(), more, inOther, netip.MustParseAddr(g))
		}
	}
}
