// The network between a guest and this machine: a tap device, or QEMU's user network.

package guest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// Network has the addresses of a guest and this machine for each other. All are IPv4.
//
// As root, with /dev/net/tun, it is a tap device: an Ethernet between the two in a separate subnet,
// without address translation, with any protocol and port in both directions, and TCP offloads.
// Otherwise it is QEMU's user network, which carries only TCP and terminates every connection in
// QEMU: the guest reaches the machine's loopback as 10.0.2.2, and the machine reaches the guest's
// ports in Config.Ports through local ports.
type Network struct {
	Host   string // this machine's address for the guest
	Listen string // this machine's listening address for the guest
	Guest  string // the guest's address; this machine reaches the address only over a tap
	Device string // the tap device's name on this machine, "" with the user network

	tap      *tap
	forward  map[int]int // user network: guest port to local port on 127.0.0.1
	reserved []func()    // functions that release the local ports
}

// Direct returns nil if tap devices are available, otherwise the reason.
var Direct = sync.OnceValue(func() error {
	if os.Getenv("NFSRDMA_LINUX_NET") == "user" {
		return errors.New("NFSRDMA_LINUX_NET=user asks for QEMU's user network")
	}
	t, err := openTap(Config{})
	if err != nil {
		return err
	}
	t.close()
	return nil
})

// Address returns the local address for a guest's TCP port in Config.Ports.
func (n *Network) Address(port int) string {
	if n.tap == nil {
		return fmt.Sprintf("127.0.0.1:%d", n.forward[port])
	}
	return fmt.Sprintf("%s:%d", n.Guest, port)
}

func newNetwork(cfg Config) (*Network, error) {
	if err := Direct(); err != nil {
		if cfg.Direct {
			return nil, fmt.Errorf("%w: the guest needs a tap device: %w", image.ErrUnavailable, err)
		}
		return userNetwork(cfg)
	}
	t, err := openTap(cfg)
	if err != nil {
		return nil, err
	}
	return &Network{Host: t.host.String(), Listen: t.host.String(), Guest: t.host.Next().String(), Device: t.name, tap: t}, nil
}

func userNetwork(cfg Config) (*Network, error) {
	n := &Network{Host: "10.0.2.2", Listen: "127.0.0.1", Guest: "10.0.2.15", forward: map[int]int{}}
	for _, port := range cfg.Ports {
		ours, release, err := machine.ReservePort()
		if err != nil {
			n.end()
			return nil, err
		}
		n.forward[port], n.reserved = ours, append(n.reserved, release)
	}
	return n, nil
}

// end releases the network's resources. For a killed guest, only Guest.Close calls end: until then
// the guest's address belongs to a machine that is off, rather than being resolved elsewhere.
func (n *Network) end() {
	if n.tap != nil {
		n.tap.close()
	}
	for _, release := range n.reserved {
		release()
	}
}

// files returns the descriptors for QEMU, starting at 3.
func (n *Network) files() []*os.File {
	if n.tap == nil {
		return nil
	}
	return []*os.File{n.tap.file}
}

// arguments returns QEMU's network arguments.
func (n *Network) arguments(isolated bool) []string {
	netdev := "tap,id=n0,fd=3"
	if n.tap == nil {
		netdev = "user,id=n0,ipv6=off"
		if isolated {
			netdev += ",restrict=on"
		}
		for port, ours := range n.forward {
			netdev += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-%s:%d", ours, n.Guest, port)
		}
	}
	return []string{"-netdev", netdev, "-device", "virtio-net-pci,netdev=n0,romfile="}
}

// cmdline returns kernel parameters with the guest's address; see rootfs/init.
func (n *Network) cmdline() []string {
	bits, mtu := 24, 1500
	if n.tap != nil {
		bits, mtu = subnetBits, n.tap.mtu
	}
	return []string{fmt.Sprintf("h.addr=%s/%d", n.Guest, bits), "h.host=" + n.Host, fmt.Sprintf("h.mtu=%d", mtu)}
}

// taken reports whether a local interface has an address in a subnet.
func taken(subnet netip.Prefix) (bool, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, a := range all {
		if !strings.Contains(a.String(), ".") {
			continue
		}
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			return false, err
		}
		if p.Masked().Overlaps(subnet) {
			return true, nil
		}
	}
	return false, nil
}
