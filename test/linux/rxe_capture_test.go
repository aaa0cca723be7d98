// Captures from a tap device, and the conditions for each RoCEv2 packet in them.

package linux

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A deviceCapture writes all IPv4 packets of a device into a file until it is closed. Unlike
// tcpdump it needs no installed program.
type deviceCapture struct {
	path string
	ours netip.Addr // this machine's end of the device
	bare bool       // no RPC in it
	fd   int
	file *os.File
	loop sync.WaitGroup

	mu    sync.Mutex
	ended bool // guarded by mu
}

// linkRaw is a capture's link type when its packets begin with the IP header.
const linkRaw = 101

// captureDevice begins a capture; close ends it.
func captureDevice(t *testing.T, device string) *deviceCapture {
	t.Helper()
	dir := os.Getenv("NFSRDMA_CAPTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	c := &deviceCapture{path: filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+"-roce.pcap")}
	i, err := net.InterfaceByName(device)
	if err != nil {
		t.Fatalf("net.InterfaceByName: %v", err)
	}
	addrs, err := i.Addrs()
	if err != nil || len(addrs) == 0 {
		t.Fatal(addrs, err)
	}
	c.ours = netip.MustParsePrefix(addrs[0].String()).Addr()
	if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatalf("unix.Socket: %v", err)
	}
	unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	must.Succeed(t, unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: bigEndian16(unix.ETH_P_ALL), Ifindex: i.Index}))
	if c.file, err = os.Create(c.path); err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	var head [24]byte
	binary.LittleEndian.PutUint32(head[0:], 0xa1b2c3d4)
	binary.LittleEndian.PutUint16(head[4:], 2)
	binary.LittleEndian.PutUint16(head[6:], 4)
	binary.LittleEndian.PutUint32(head[16:], 1<<16)
	binary.LittleEndian.PutUint32(head[20:], linkRaw)
	if _, err := c.file.Write(head[:]); err != nil {
		t.Fatalf("file.Write: %v", err)
	}
	c.loop.Go(func() { c.run(t) })
	return c
}

func (c *deviceCapture) run(t *testing.T) {
	packet := make([]byte, 16+1<<16)
	for {
		n, from, err := unix.Recvfrom(c.fd, packet[16:], 0)
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		if err != nil && ended {
			return
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok || ll.Protocol != bigEndian16(unix.ETH_P_IP) {
			continue
		}
		now := time.Now()
		binary.LittleEndian.PutUint32(packet[0:], uint32(now.Unix()))
		binary.LittleEndian.PutUint32(packet[4:], uint32(now.Nanosecond()/1000))
		binary.LittleEndian.PutUint32(packet[8:], uint32(n))
		binary.LittleEndian.PutUint32(packet[12:], uint32(n))
		if _, err := c.file.Write(packet[:16+n]); err != nil {
			t.Errorf("file.Write: %v", err)
			return
		}
	}
}

// close ends the capture when no packet has come for a moment, and returns how many packets the
// kernel had no room for.
func (c *deviceCapture) close(t *testing.T) (lost int) {
	t.Helper()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.loop.Wait()
	if stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		lost = int(stats.Drops)
	}
	unix.Close(c.fd)
	if err := c.file.Close(); err != nil {
		t.Fatalf("file.Close: %v", err)
	}
	return lost
}

func bigEndian16(n uint16) uint16 { return n<<8 | n>>8 }

// check closes the capture and checks all packets; it must have packets of each kind that NFS uses.
func (c *deviceCapture) check(t *testing.T, lossy bool) {
	t.Helper()
	c.checkKinds(t, lossy, packet.UDSendOnly, packet.RCSendOnly, packet.RCAck, packet.RCWriteOnly, packet.RCReadRequest)
}

// checkKinds closes the capture and parses each packet. Each has a valid ICRC, from either sender,
// and none is refused. Only lost packets are reported missing. If netem loses packets (lossy), the
// capture cannot show which. The capture must have packets of each kind.
func (c *deviceCapture) checkKinds(t *testing.T, lossy bool, kinds ...packet.Opcode) {
	t.Helper()
	lost := c.close(t)
	if lost > 0 {
		t.Logf("the capture lacks %d packets, for which this machine had no time", lost)
	}
	f := frames{ours: c.ours, seen: map[sentPSN]bool{}, data: map[answerPSN]bool{}, blind: lossy || lost > 0}
	count := map[packet.Opcode]int{}
	for frame, ip := range c.packets(t) {
		if op, ok := f.check(t, frame, ip); ok {
			count[op]++
		}
	}
	t.Logf("on the wire: %v; %d NAKs of a sequence error", count, f.missing)
	for _, op := range kinds {
		if count[op] == 0 {
			t.Errorf("no %v in the capture", op)
		}
	}
	tsharkRoCE(t, c)
}

// packets returns the packets in a closed capture, numbered from 1.
func (c *deviceCapture) packets(t *testing.T) iter.Seq2[int, []byte] {
	t.Helper()
	return func(yield func(int, []byte) bool) {
		in, err := os.Open(c.path)
		if err != nil {
			t.Fatalf("os.Open: %v", err)
		}
		defer in.Close()
		r, err := pcapgo.NewReader(in)
		if err != nil {
			t.Fatalf("NewReader: %v", err)
		}
		for frame := 1; ; frame++ {
			ip, _, err := r.ReadPacketData()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("ReadPacketData: %v", err)
			}
			if !yield(frame, ip) {
				return
			}
		}
	}
}

// ends closes the capture and returns how many connections we have ended towards the peer.
func (c *deviceCapture) ends(t *testing.T) int {
	t.Helper()
	c.close(t)
	seen := map[uint64]bool{} // by transaction ID, because messages are repeated
	for _, ip := range c.packets(t) {
		v4, rest, err := packet.ParseIPv4(ip)
		if err != nil || v4.Src != c.ours {
			continue
		}
		if udp, _, err := packet.ParseUDP(rest); err != nil || udp.Dst != packet.Port {
			continue
		}
		h, payload, err := packet.Parse(ip[packet.IPv4Len+packet.UDPLen : v4.Length])
		if err != nil || h.Opcode != packet.UDSendOnly || len(payload) < mad.Len {
			continue
		}
		if m, _, err := mad.Parse(payload[:mad.Len]); err == nil && m.Attribute == mad.AttrDREQ {
			seen[m.TransactionID] = true
		}
	}
	return len(seen)
}

// A sentPSN is a request that was in the capture.
type sentPSN struct {
	from netip.Addr
	psn  uint32
}

// An answerPSN is a packet of a Read's data that we have sent.
type answerPSN struct{ qpn, psn uint32 }

// frames has the facts from the packets of a capture that were checked so far.
type frames struct {
	ours    netip.Addr
	seen    map[sentPSN]bool
	data    map[answerPSN]bool
	blind   bool // captured packets may be lost later, and arrived packets may be missing
	missing int  // NAKs for a sequence error
}

// check returns the opcode of a packet of RoCEv2.
func (f *frames) check(t *testing.T, frame int, ip []byte) (op packet.Opcode, ok bool) {
	t.Helper()
	v4, rest, err := packet.ParseIPv4(ip)
	if err != nil {
		return 0, false // not UDP
	}
	udp, _, err := packet.ParseUDP(rest)
	if err != nil || udp.Dst != packet.Port {
		return 0, false
	}
	const headers = packet.IPv4Len + packet.UDPLen
	var icrc packet.ICRC
	datagram := ip[headers:v4.Length]
	if !icrc.Valid(ip[:headers], datagram) {
		t.Errorf("frame %d of %v: ICRC not valid", frame, v4.Src)
	}
	h, _, err := packet.Parse(datagram)
	if err != nil {
		t.Errorf("frame %d of %v: %v", frame, v4.Src, err)
		return 0, false
	}
	if h.Opcode.Service() == packet.RC && !h.Opcode.Operation().Response() {
		f.seen[sentPSN{v4.Src, h.PSN}] = true
	}
	if v4.Src == f.ours {
		f.answer(t, frame, &h)
	}
	switch s := h.AETH.Syndrome; {
	case h.Opcode != packet.RCAck || s.Kind() == packet.KindACK:
	case f.blind && v4.Src != f.ours && s.Kind() == packet.KindNAK && s.NAKCode() == packet.NAKRemoteAccess:
		// netem delays a Read, which rxe repeats. The late Read comes after its memory was given
		// up: rxe ends the connection.
		t.Logf("frame %d: rxe ends the connection for a Read that comes late", frame)
	case f.blind && v4.Src == f.ours && s.Kind() == packet.KindNAK && s.NAKCode() == packet.NAKInvalidRequest:
		// After an empty Write rxe sometimes restarts the next Write at another PSN, and the
		// lengths of its parts do not add up.
		t.Logf("frame %d: a Write of rxe's does not add up", frame)
	case f.blind && v4.Src == f.ours && s.Kind() == packet.KindNAK && s.NAKCode() == packet.NAKRemoteAccess && f.data[answerPSN{h.DestQP, h.PSN}]:
		// rxe repeated a Read, and its memory was given up before its data was sent again.
		t.Logf("frame %d: a Read of rxe's that was answered comes late", frame)
	case s.Kind() != packet.KindNAK || s.NAKCode() != packet.NAKSequence:
		t.Errorf("frame %d of %v: %v", frame, v4.Src, s)
	default:
		f.nak(t, frame, &v4, h.PSN)
	}
	return h.Opcode, true
}

// answer checks that no acknowledge of ours has the PSN of a Read's data: rxe would complete the
// Read with the data so far.
func (f *frames) answer(t *testing.T, frame int, h *packet.Header) {
	t.Helper()
	at := answerPSN{h.DestQP, h.PSN}
	switch {
	case h.Opcode.Service() == packet.RC && h.Opcode.Operation() == packet.OpReadResponse:
		f.data[at] = true
	case h.Opcode == packet.RCAck && h.AETH.Syndrome.Kind() == packet.KindACK && f.data[at]:
		t.Errorf("frame %d: an acknowledge with PSN %#x, which is of a Read", frame, h.PSN)
	}
}

// nak checks a NAK for a missing packet. A busy machine loses packets even without netem: the
// guest's before the device, and ours after it. So no NAK of ours may be for a captured packet, and
// none of the guest's for a packet that is not captured.
func (f *frames) nak(t *testing.T, frame int, v4 *packet.IPv4, psn uint32) {
	t.Helper()
	f.missing++
	if came := f.seen[sentPSN{v4.Dst, psn}]; !f.blind && came == (v4.Src == f.ours) {
		t.Errorf("frame %d of %v: a NAK for PSN %#x, which is in the capture: %t", frame, v4.Src, psn, came)
	}
}

// tsharkRoCE asks tshark for malformed InfiniBand headers. By default tshark parses each Send as
// RPC-over-RDMA if it has seen the connection's start. Messages from perftest then count as cut.
func tsharkRoCE(t *testing.T, c *deviceCapture) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		machine.Skip(t, "tshark is missing")
	}
	args := []string{"-r", c.path, "-c", "20000", "-Y", "_ws.malformed && infiniband && !rpc", "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed"}
	if c.bare {
		args = append(args, "--disable-protocol", "rpcordma")
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	if len(out) > 0 {
		t.Errorf("malformed to tshark:\n%s", out)
	}
}
