// Sessions that other clients of the volume have taken for dead, of servers that are not.

package juicefs

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/sirupsen/logrus"
)

// A server that was stopped, or could not reach the metadata service, for five heartbeats comes
// back to a session that another one has ended, and whose locks others may have by then; and when
// the service was away from all for that long, who is back first ends the sessions of the rest.
// JuiceFS makes such a session anew, without its locks, says so in its log and goes on. A client
// would have a lock that another one has, too. So where clients have locks the process ends at that
// line, before the session is there again, and is started again, as where a heartbeat ends: its
// clients reclaim what nobody else has had, and are refused the rest.
type staleHook struct{}

func (staleHook) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (staleHook) Fire(e *logrus.Entry) error {
	var sid uint64
	if n, _ := fmt.Sscanf(e.Message, "Session %d was stale and cleaned up", &sid); n == 1 {
		opened.sessionEnded(sid)
	}
	return nil
}

// sessionEnded ends the process if clients have locks by a session of that number. Which volume it
// is of is not told: one of another volume may have the same.
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
