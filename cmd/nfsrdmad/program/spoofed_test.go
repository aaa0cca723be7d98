// Spoofed calls to the port mapper over UDP change nothing, and no reply is larger than its call.

package program

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
	"golang.org/x/sys/unix"
)

// serversAddr is the server on the test's device, victimsAddr a host that never calls, and
// rootsPort the port of all forged calls.
const (
	serversAddr = "192.0.2.1"
	victimsAddr = "192.0.2.77"
	rootsPort   = 700
)

// A forger simulates a network that is reached through a local device: it sends datagrams with any
// source address, and sees the replies.
type forger struct {
	t   *testing.T
	tun int
}

// newForger makes the device, and returns its forger.
func newForger(t *testing.T) *forger {
	t.Helper()
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("unix.Open: %v", err)
	}
	t.Cleanup(func() { unix.Close(tun) })
	req, err := unix.NewIfreq("other")
	if err != nil {
		t.Fatalf("unix.NewIfreq: %v", err)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	must.Succeed(t, unix.IoctlIfreq(tun, unix.TUNSETIFF, req))
	if out, err := exec.Command("sh", "-c", "ip addr add "+serversAddr+"/24 dev other && ip link set other up").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &forger{t, tun}
}

// send sends a datagram to the port mapper, and returns its bytes including the headers of IP and
// UDP.
func (f *forger) send(from string, payload []byte) int {
	f.t.Helper()
	b := make([]byte, 28, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(payload)))
	copy(b[12:], net.ParseIP(from).To4())
	copy(b[16:], net.ParseIP(serversAddr).To4())
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
	binary.BigEndian.PutUint16(b[20:], rootsPort)
	binary.BigEndian.PutUint16(b[22:], rpcbind.Port)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	b = append(b, payload...)
	if _, err := unix.Write(f.tun, b); err != nil {
		f.t.Fatalf("unix.Write: %v", err)
	}
	return len(b)
}

// received returns how many IPv4 bytes have been sent back since the last call.
func (f *forger) received() (n int) {
	f.t.Helper()
	b := make([]byte, 64<<10)
	for {
		got, err := unix.Read(f.tun, b)
		switch {
		case err == unix.EAGAIN:
			return n
		case err != nil:
			f.t.Fatal(err)
		case b[0]>>4 == 4: // only IPv4: over IPv6 the kernel sends packets of its own
			n += got
		}
	}
}

// rpcCall returns a call to the port mapper that claims to be from root.
func rpcCall(vers, proc uint32, args xdr.Marshaler) []byte {
	cred := binary.BigEndian.AppendUint32(nil, 0)       // stamp
	cred = append(cred, 0, 0, 0, 4, 'r', 'o', 'o', 't') // machine
	cred = append(cred, make([]byte, 12)...)            // uid, gid, no groups
	e := xdr.NewEncoder(nil)
	h := oncrpc.CallHeader{XID: vers<<8 | proc, Prog: rpcbind.Program, Vers: vers, Proc: proc, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: cred}}
	h.EncodeXDR(e)
	args.EncodeXDR(e)
	return e.Bytes()
}

// askUDP makes a call over UDP from a local address and returns the reply, or nil if the reply to a
// later call came first.
func askUDP(t *testing.T, from string, call []byte) []byte {
	t.Helper()
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from), Port: 0}, &net.UDPAddr{IP: net.ParseIP(from), Port: rpcbind.Port})
	if err != nil {
		t.Fatalf("net.DialUDP: %v", err)
	}
	defer c.Close()
	null := rpcCall(2, rpcbind.ProcNull, none{})
	c.SetDeadline(time.Now().Add(time.Minute))
	for _, b := range [][]byte{call, null} { // the server answers in this order
		if _, err := c.Write(b); err != nil {
			t.Fatalf("c.Write: %v", err)
		}
	}
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	if err != nil {
		t.Fatalf("c.Read: %v", err)
	}
	if string(b[:4]) == string(null[:4]) {
		return nil
	}
	return b[:n]
}

type none struct{}

func (none) EncodeXDR(*xdr.Encoder) {}

// TestSpoofedPortMapperCalls: a forger sends every procedure of every version, with the address of
// a host that never calls. That host receives fewer bytes than the forger sends. Calls with its
// address or this machine's do not register or remove anything.
func TestSpoofedPortMapperCalls(t *testing.T) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		machine.Skip(t, "needs /dev/net/tun")
	}
	if !machine.Apart(t, "rpcinfo") {
		return
	}
	f := newForger(t)
	end := served(t, "::", "serve")
	defer end()
	awaitPort(t, "127.0.0.1:111")
	// Root has a socket on the forged calls' port. If the calls were accepted as local, they would
	// count as root's.
	roots, err := net.ListenUDP("udp4", &net.UDPAddr{Port: rootsPort})
	if err != nil {
		t.Fatalf("net.ListenUDP: %v", err)
	}
	defer roots.Close()
	before := rpcinfo(t, serversAddr)
	if len(askUDP(t, "127.0.0.1", rpcCall(2, rpcbind.ProcDump, none{}))) < 200 {
		t.Error("DUMP does not answer this machine at length")
	}
	reply := askUDP(t, serversAddr, rpcCall(2, rpcbind.ProcDump, none{}))
	if len(reply) != 24 || binary.BigEndian.Uint32(reply[20:]) != uint32(oncrpc.SystemErr) {
		t.Errorf("DUMP from another address: %x, want 24 bytes with %v", reply, oncrpc.SystemErr)
	}
	answered := 0
	for vers := uint32(2); vers <= 4; vers++ {
		for proc := range uint32(14) {
			for _, args := range forgedArgs(vers) {
				call := rpcCall(vers, proc, args)
				for _, from := range []string{victimsAddr, serversAddr, "127.0.0.1"} {
					// for the last two the kernel drops the packets, because they claim this
					// machine's address
					f.received()
					sent := f.send(from, call)
					// calls are answered in order, so after this reply a reply to the forged call
					// would have been sent
					askUDP(t, "127.0.0.1", rpcCall(2, rpcbind.ProcNull, none{}))
					got := f.received()
					if got > sent {
						t.Errorf("version %d, procedure %d from %s: %d bytes for a call of %d", vers, proc, from, got, sent)
					}
					if got > 0 {
						answered++
					}
				}
				unchanged(t, fmt.Sprintf("version %d, procedure %d", vers, proc))
			}
		}
	}
	if answered < 10 {
		t.Errorf("%d forged calls were answered: nothing was seen", answered)
	}
	if after := rpcinfo(t, serversAddr); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// unchanged checks that the registrations are unchanged.
func unchanged(t *testing.T, after string) {
	t.Helper()
	for m, want := range map[rpcbind.Mapping]uint32{{Prog: 100003, Vers: 3, Prot: rpcbind.TCP}: 2049, {Prog: 100099, Vers: 1, Prot: rpcbind.UDP}: 0} {
		reply := askUDP(t, "127.0.0.1", rpcCall(2, rpcbind.ProcGetport, &m))
		if len(reply) < 4 || binary.BigEndian.Uint32(reply[len(reply)-4:]) != want {
			t.Errorf("after %s: the port of program %d is answered with %x", after, m.Prog, reply)
		}
	}
}

// forgedArgs returns arguments for a version's procedures: no arguments, a registered program, and
// an unregistered one.
func forgedArgs(vers uint32) []xdr.Marshaler {
	if vers == 2 {
		return []xdr.Marshaler{none{},
			&rpcbind.Mapping{Prog: 100003, Vers: 3, Prot: rpcbind.TCP, Port: 666}, &rpcbind.Mapping{Prog: 100099, Vers: 1, Prot: rpcbind.UDP, Port: 666}}
	}
	return []xdr.Marshaler{none{},
		&rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "tcp", Addr: "192.0.2.66.2.154", Owner: "superuser"},
		&rpcbind.Binding{Prog: 100099, Vers: 1, Netid: "udp", Addr: "192.0.2.66.2.154", Owner: "superuser"}}
}
