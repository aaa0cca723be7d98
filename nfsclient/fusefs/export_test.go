// What tests of mounts need of the inside: a sleep of the machine, notices that are late, changes
// that are held for long.

package fusefs

import "time"

// Sleep has a mount see that the machine has slept.
func Sleep(m *MountPoint, d time.Duration) { m.fs.slept(d) }

// HoldNotices keeps the mount from telling the kernel anything but at an open.
func HoldNotices(m *MountPoint) {
	q := &m.fs.notices
	q.mu.Lock()
	q.running = true
	q.mu.Unlock()
}

// SendNotices sends the waiting notices.
func SendNotices(m *MountPoint) { m.fs.notices.run() }

// HoldFor has the mount hold changes of new files for as long.
func HoldFor(m *MountPoint, d time.Duration) {
	m.fs.deferred.mu.Lock()
	m.fs.deferred.delay = d
	m.fs.deferred.mu.Unlock()
}

// BoundNodes has the mount prune more than count nodes, by names where byName is set, as before
// Linux 6.18.
func BoundNodes(m *MountPoint, count int, byName bool) {
	m.fs.table.mu.Lock()
	m.fs.table.most = count
	m.fs.table.mu.Unlock()
	m.fs.pruner.byName.Store(byName)
}

// Unseen makes a mount interrupt requests of processes that it does not see soon after a signal,
// and puts all users into these groups.
func Unseen(m *MountPoint, groups ...string) {
	m.fs.requests.mu.Lock()
	m.fs.requests.unseen = 0
	m.fs.requests.mu.Unlock()
	m.fs.callers.mu.Lock()
	m.fs.callers.login = func(string, string) []string { return groups }
	m.fs.callers.mu.Unlock()
}

// ForgetNames has the kernel forget all names.
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

// LetNoticesGo sends those that were held, and does not wait until they are sent.
func LetNoticesGo(m *MountPoint) { m.fs.notices.startSender() }

// LoginGroups is the groups of a user whose login has the group.
var LoginGroups = loginGroups

// MaxAbsent is how many absent names of a directory are known.
const MaxAbsent = maxAbsent
