// Multicast: group memberships of a port's QPs, and their receive loops.

package roce

import (
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// groups are a port's multicast memberships. A membership lasts while any QP is attached. Each
// membership has its own receive loop, because the port's socket receives no multicast packets.
type groups struct {
	mu  sync.Mutex
	all map[netip.Addr]*membership // guarded by mu
}

type membership struct {
	wire  udp.Receiver // set once
	users int          // guarded by groups.mu: attached QPs
}

// join makes the port a member of a group, or counts one more user.
func (t *port) join(group netip.Addr) error {
	t.groups.mu.Lock()
	defer t.groups.mu.Unlock()
	if m := t.groups.all[group]; m != nil {
		m.users++
		return nil
	}
	w, err := udp.OpenGroup(t.key, group)
	if err != nil {
		return err
	}
	if t.groups.all == nil {
		t.groups.all = make(map[netip.Addr]*membership)
	}
	t.groups.all[group] = &membership{wire: w, users: 1}
	go t.receiveLoop(w)
	return nil
}

// leave undoes join. leave does not wait for the receive loop, which may be the caller.
func (t *port) leave(group netip.Addr) {
	t.groups.mu.Lock()
	defer t.groups.mu.Unlock()
	m := t.groups.all[group]
	if m.users--; m.users == 0 {
		delete(t.groups.all, group)
		m.wire.Close()
	}
}

// Join attaches a bound UD QP to a group.
func (e *endpoint) Join(group netip.Addr) (rnic.AddressHandle, error) {
	group = group.Unmap().WithZone("")
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bound.Load()
	if b == nil {
		return rnic.AddressHandle{}, errNotBound
	}
	_, a := b.qp.Query()
	ah := rnic.AddressHandle{Addr: group, QPN: core.MulticastQPN, QKey: a.QKey}
	if _, is := e.groups[group]; is {
		return ah, nil
	}
	// Attach fails for other services and for an ended QP: finish takes mu after it has removed
	// the QP.
	if err := b.port.core.Attach(b.qp, group); err != nil {
		return rnic.AddressHandle{}, err
	}
	if err := b.port.join(group); err != nil {
		b.port.core.Detach(b.qp, group)
		return rnic.AddressHandle{}, err
	}
	if e.groups == nil {
		e.groups = make(map[netip.Addr]struct{})
	}
	e.groups[group] = struct{}{}
	return ah, nil
}

// Leave undoes Join. Leave does nothing if the QP is not attached to the group.
func (e *endpoint) Leave(group netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(group.Unmap().WithZone(""))
}

// leaveAll leaves all groups. The caller holds mu.
func (e *endpoint) leaveAll() {
	for g := range e.groups {
		e.leave(g)
	}
}

// leave leaves one group. The caller holds mu.
func (e *endpoint) leave(group netip.Addr) {
	if _, is := e.groups[group]; !is {
		return
	}
	delete(e.groups, group)
	b := e.bound.Load()
	b.port.core.Detach(b.qp, group)
	b.port.leave(group)
}
