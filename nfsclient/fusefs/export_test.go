// Internals for tests of mounts: simulated suspend, delayed notices, and changes deferred for long.

package fusefs

import "time"

// Sleep simulates a suspend of the machine for a mount.
func Sleep(m *MountPoint, d time.Duration) { m.fs.ageCaches(d) }

// SuppressNotices delays the mount's notices to the kernel, except during an open.
func SuppressNotices(m *MountPoint) {
	q := &m.fs.notices
	q.mu.Lock()
	q.running = true
	q.mu.Unlock()
}

// SendNotices sends the waiting notices.
func SendNotices(m *MountPoint) { m.fs.notices.run() }

// DeferFor sets how long a mount defers changes of new files.
func DeferFor(m *MountPoint, d time.Duration) {
	m.fs.deferred.mu.Lock()
	m.fs.deferred.delay = d
	m.fs.deferred.mu.Unlock()
}

// BoundNodes makes the mount prune nodes above count. With byName it prunes by names, as for
// kernels before Linux 6.18.
func BoundNodes(m *MountPoint, count int, byName bool) {
	m.fs.table.mu.Lock()
	m.fs.table.most = count
	m.fs.table.mu.Unlock()
	m.fs.pruner.byName.Store(byName)
}

// Unseen sets the wait before interrupting requests of unseen processes to 0, and gives all users
// these groups.
func Unseen(m *MountPoint, groups ...string) {
	m.fs.requests.mu.Lock()
	m.fs.requests.unseen = 0
	m.fs.requests.mu.Unlock()
	m.fs.callers.mu.Lock()
	m.fs.callers.login = func(string, string) []string { return groups }
	m.fs.callers.mu.Unlock()
}

// ForgetNames makes the kernel forget all names.
func ForgetNames(m *MountPoint) {
	for _, n := range m.fs.table.all() {
		for _, p := range m.fs.table.dirNamesOf(n.id) {
			_ = m.fs.server.EntryNotify(p.dir.id, p.name)
		}
		dirs, _, _ := m.fs.table.namesOf(n)
		for _, d := range dirs {
			_ = m.fs.server.EntryNotify(n.id, d.name)
		}
	}
}

// StartNotices starts sending the suppressed notices, and does not wait for it.
func StartNotices(m *MountPoint) { m.fs.notices.startSender() }

// LoginGroups returns the groups of a user's login, or none if the login does not have the group.
var LoginGroups = loginGroups

// MaxAbsent is the maximum number of known absent names in a directory.
const MaxAbsent = maxAbsent
