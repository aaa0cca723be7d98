// Live servers' sessions that other clients of the volume have ended as dead.

package juicefs

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/sirupsen/logrus"
)

// A server may be stopped, or cut off from the metadata service, for five heartbeats. Then another
// client has ended its session, and others may hold its locks. If the service was unreachable for
// all, the first client back ends the sessions of the rest. JuiceFS recreates such a session
// without its locks, logs a line and continues. A client could then hold a lock that another one
// holds, too. So if clients have locks, the process ends at that line, before the session exists
// again, and its unit restarts it, as after an ended heartbeat. Its clients reclaim the locks that
// no other client took, and are refused the rest.
type staleHook struct{}

func (staleHook) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (staleHook) Fire(e *logrus.Entry) error {
	var sid uint64
	if n, _ := fmt.Sscanf(e.Message, "Session %d was stale and cleaned up", &sid); n == 1 {
		opened.sessionEnded(sid)
	}
	return nil
}

// sessionEnded ends the process if clients hold locks in a session of that number. The line does
// not name the volume: a session of another volume may have the same number.
func (o *openVolumes) sessionEnded(sid uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for f := range o.set {
		if f.sid == sid && f.locked.Load() > 0 {
			cmp.Or(f.log, slog.Default()).Error(fmt.Sprintf("juicefs: other servers have taken this one for dead, and freed the locks of its clients in the volume %s: it ends, to be started again", f.uuid))
			endProcess()
			return
		}
	}
}
