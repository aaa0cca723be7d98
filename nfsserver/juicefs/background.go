// The end of JuiceFS's background work, which must precede Badger's close.

package juicefs

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// JuiceFS deletes removed files' data and compacts chunks in goroutines that CloseSession does not
// wait for. Badger unmaps its tables when it is closed, and a goroutine that still reads one
// crashes the process. So the metadata client is closed only when no such goroutine runs.
// maxDeleting has an element for each deletion and compacting for each compaction; no compaction
// begins after the session is closed. JuiceFS exports neither count, so we read both by reflection.
// Opening a volume fails with a version without them.
type background struct {
	mu                      sync.Locker // guards compacting
	maxDeleting, compacting reflect.Value
}

func backgroundOf(m meta.Meta) (b background, err error) {
	v := reflect.Indirect(reflect.ValueOf(m))
	mu, ok := m.(sync.Locker)
	if v.Kind() == reflect.Struct {
		b = background{mu, v.FieldByName("maxDeleting"), v.FieldByName("compacting")}
	}
	if !ok || b.maxDeleting.Kind() != reflect.Chan || b.compacting.Kind() != reflect.Map {
		return b, fmt.Errorf("juicefs: the metadata client %T is not one of JuiceFS v1.4.1", m)
	}
	return b, nil
}

func (b *background) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.maxDeleting.Len() + b.compacting.Len()
}

const (
	quietPoll = 10 * time.Millisecond
	// quietPolls is the number of consecutive polls that must find none: some shorter work, such as
	// fetching the next inode numbers, is not counted.
	quietPolls = 5
)

// wait returns when no background work is left.
func (b *background) wait() {
	for quiet := 0; quiet < quietPolls; quiet++ {
		if b.count() > 0 {
			quiet = 0
		}
		time.Sleep(quietPoll)
	}
}
