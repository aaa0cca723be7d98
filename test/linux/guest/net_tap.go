// The tap device between a guest and this machine: creation, addresses, and a filter for isolated
// guests.

package guest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each tap has a two-host subnet in the range that RFC 2544 reserves for tests. The kernel numbers
// the devices of all processes, so two open devices never have the same number or subnet.
const (
	tapName    = "nfsrdma%d"
	subnetBits = 30
)

var subnets = netip.MustParsePrefix("198.18.0.0/15")

// DefaultMTU is the size of jumbo frames: 64 MB are then 7,000 FPDUs instead of 46,000, which
// matters on an emulated CPU.
const DefaultMTU = 9000

// tap is an open device. The kernel removes the device with its last descriptor.
type tap struct {
	file *os.File
	name string
	host netip.Addr // our address; the guest has the next address
	mtu  int
}

// openTap makes the device named in cfg, or a device with the next free number, sets its address
// and brings it up.
func openTap(cfg Config) (t *tap, err error) {
	var busy []*tap // held open so that the kernel chooses another number
	defer func() {
		for _, b := range busy {
			b.close()
		}
	}()
	for {
		if t, err = newTap(cmp.Or(cfg.Device, tapName)); err != nil {
			return nil, err
		}
		subnet, err := t.subnet()
		if err != nil {
			t.close()
			return nil, err
		}
		inUse, err := taken(subnet)
		if err != nil {
			t.close()
			return nil, err
		}
		if inUse && cfg.Device == "" {
			busy = append(busy, t)
			continue
		}
		t.host = subnet.Addr().Next()
		t.mtu = cfg.MTU
		if t.mtu == 0 {
			t.mtu = DefaultMTU
		}
		if err := t.setUp(cfg.Isolated); err != nil {
			t.close()
			return nil, err
		}
		return t, nil
	}
}

// newTap makes a device with a name or a kernel name pattern.
func newTap(name string) (*tap, error) {
	const device = "/dev/net/tun"
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can make a tap device")
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		// The virtio header permits segments of 64 kB without checksums.
		ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("making a tap device: %w", err)
	}
	return &tap{file: os.NewFile(uintptr(fd), device), name: ifr.Name()}, nil
}

// subnet returns the subnet for the device's number.
func (t *tap) subnet() (netip.Prefix, error) {
	var number uint32
	if _, err := fmt.Sscanf(t.name, tapName, &number); err != nil {
		return netip.Prefix{}, fmt.Errorf("%s is no name of a tap device of ours: %w", t.name, err)
	}
	first := subnets.Addr().As4()
	binary.BigEndian.PutUint32(first[:], binary.BigEndian.Uint32(first[:])+number<<(32-subnetBits))
	subnet := netip.PrefixFrom(netip.AddrFrom4(first), subnetBits)
	if !subnets.Overlaps(subnet) {
		return netip.Prefix{}, fmt.Errorf("%s: too many tap devices", t.name)
	}
	return subnet, nil
}

func (t *tap) setUp(isolated bool) error {
	if isolated {
		if err := t.isolate(); err != nil {
			return fmt.Errorf("%s: a filter: %w", t.name, err)
		}
	}
	// With IPv6 this machine would only send router solicitations.
	os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", t.name, "disable_ipv6"), []byte("1"), 0)
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	address := t.host.As4()
	for _, step := range []struct {
		what    string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }},
		{"netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 256 - 1<<(32-subnetBits)}) }},
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(t.mtu)); return nil }},
		{"start", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }},
	} {
		ifr, err := unix.NewIfreq(t.name)
		if err == nil {
			err = step.set(ifr)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, step.request, ifr)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", step.what, t.name, err)
		}
	}
	return nil
}

// isolate installs a filter that drops this machine's replies to connections from the guest: it
// passes ARP, TCP except a reply to a SYN, and packets to RoCEv2's port. So connections to the
// guest work, and connections from it do not. The guest's packets reach this machine's services but
// get no reply, except on that port.
func (t *tap) isolate() error {
	const (
		load1   = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		load2   = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		header  = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH
		indexed = unix.BPF_LD | unix.BPF_B | unix.BPF_IND
		port    = unix.BPF_LD | unix.BPF_H | unix.BPF_IND
		and     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret     = unix.BPF_RET | unix.BPF_K

		ether     = 14   // bytes of an Ethernet header
		roce      = 4791 // UDP port
		synAndAck = 0x12 // flags of TCP
	)
	program := []unix.SockFilter{
		{Code: load2, K: 12},
		{Code: equal, K: unix.ETH_P_ARP, Jt: 11},
		{Code: equal, K: unix.ETH_P_IP, Jf: 9},
		{Code: load1, K: ether + 9},
		{Code: header, K: ether},
		{Code: equal, K: unix.IPPROTO_TCP, Jt: 3},
		{Code: equal, K: unix.IPPROTO_UDP, Jf: 5},
		{Code: port, K: ether + 2},
		{Code: equal, K: roce, Jt: 4, Jf: 3},
		{Code: indexed, K: ether + 13},
		{Code: and, K: synAndAck},
		{Code: equal, K: synAndAck, Jf: 1},
		{Code: ret, K: 0},
		{Code: ret, K: 1 << 18},
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, t.file.Fd(), unix.TUNATTACHFILTER, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	return nil
}

func (t *tap) close() { t.file.Close() }
