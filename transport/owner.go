// Who holds the other end of a connection, where that end is on this machine.

package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"golang.org/x/sys/unix"
)

// An OwnerKind says what is known of who holds the peer's socket.
type OwnerKind uint8

const (
	// OwnerUnknown is a peer on this machine whose socket belongs to nobody that the
	// kernel would name: its process has closed it, or the kernel has no inet_diag. It is
	// also one of which the kernel does not say whether it is on this machine.
	OwnerUnknown OwnerKind = iota
	// OwnerLocal is a peer on this machine whose socket belongs to Owner.UID.
	OwnerLocal
	// OwnerRemote is a peer on another machine, or in another network namespace, of
	// whom this machine's kernel knows nothing.
	OwnerRemote
)

// An Owner is who holds the peer's end of a connection, as the kernel of this
// machine said when the connection was accepted. It is the user that made the
// socket: a process that gets a connected socket from another one, or changes its user
// afterwards, does not change it.
type Owner struct {
	Kind OwnerKind
	UID  uint32 // of OwnerLocal: as the server's own user namespace numbers it
}

func (o Owner) String() string {
	switch o.Kind {
	case OwnerLocal:
		return fmt.Sprintf("uid %d of this machine", o.UID)
	case OwnerRemote:
		return "another machine"
	}
	return "somebody whom the kernel does not name"
}

// ownerWait bounds the question whose a connection is. It is far more than the
// kernel needs: whoever is not known by then is cut off, and comes again.
const ownerWait = 10 * time.Second

var errOwnerWait = errors.New("rpc: the kernel did not say in time whose socket the peer has")

// owners asks for the owners of the connections of one Server, one at a time, so that
// a kernel that is stuck costs one goroutine and not one for each connection.
type owners struct {
	ask    func(local, remote netip.AddrPort) Owner // about a TCP connection
	askUDP func(local, remote netip.AddrPort) Owner // about a socket that is bound to remote
	turn   chan struct{}                            // has an element while somebody asks
	wait   time.Duration                            // ownerWait
	start  sync.Once
	diag   sockDiag // used by who has the turn, and by open
}

// open is called before the first connection is accepted.
func (o *owners) open() { o.start.Do(o.diag.open) }

func (o *owners) init(ask func(local, remote netip.AddrPort) Owner) {
	o.turn, o.wait = make(chan struct{}, 1), ownerWait
	if o.ask, o.askUDP = ask, ask; ask == nil {
		o.ask, o.askUDP = o.diag.owner, o.diag.ownerUDP
	}
}

// ofRequest returns the owner of the other end of a connection request, or errOwnerWait.
func (o *owners) ofRequest(req rnic.ConnRequest) (Owner, error) {
	if d, ok := req.(rnic.DatagramRequest); ok {
		local, remote := d.Sockets()
		return o.bounded(o.askUDP, local, remote)
	}
	return o.of(req.NetConn())
}

// of returns the owner of the other end of c, or errOwnerWait.
func (o *owners) of(c net.Conn) (Owner, error) {
	local, lok := c.LocalAddr().(*net.TCPAddr)
	remote, rok := c.RemoteAddr().(*net.TCPAddr)
	if !lok || !rok {
		if a := c.RemoteAddr(); a != nil && a.Network() == "unix" {
			return Owner{}, nil
		}
		return Owner{Kind: OwnerRemote}, nil // a network of the program's own, which admits whom it likes
	}
	owner, err := o.within(local.AddrPort(), remote.AddrPort())
	// A connection that was reset gives its ports free for another one, of whose
	// owner the kernel may then have spoken: what it left unread is nobody's.
	if owner.Kind == OwnerLocal && ended(c) {
		owner = Owner{}
	}
	return owner, err
}

// ended reports whether the kernel has given the connection up.
func ended(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err != nil || info.State == tcpClose
	})
	return err != nil || over
}

// within asks, as one of those who want to.
func (o *owners) within(local, remote netip.AddrPort) (Owner, error) {
	return o.bounded(o.ask, local, remote)
}

func (o *owners) bounded(ask func(local, remote netip.AddrPort) Owner, local, remote netip.AddrPort) (Owner, error) {
	timer := time.NewTimer(o.wait)
	defer timer.Stop()
	select {
	case o.turn <- struct{}{}:
	case <-timer.C:
		return Owner{}, errOwnerWait
	}
	answer := make(chan Owner, 1)
	go func() {
		defer func() { <-o.turn }()
		answer <- ask(local, remote)
	}()
	select {
	case owner := <-answer:
		return owner, nil
	case <-timer.C:
		return Owner{}, errOwnerWait
	}
}

// close releases what the questions need, unless one is still being asked when the
// time for it is over.
func (o *owners) close() {
	timer := time.NewTimer(o.wait)
	defer timer.Stop()
	select {
	case o.turn <- struct{}{}:
		o.diag.close()
		<-o.turn
	case <-timer.C:
	}
}
