// The end of what JuiceFS does by itself, which has to come before Badger's.

package juicefs

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// JuiceFS deletes the data of removed files and compacts chunks in goroutines that CloseSession does not wait for. Badger unmaps
// its tables when it is closed, and a goroutine that reads one then ends the process. So the metadata client is
// closed when it counts none of them: maxDeleting has an element for each deletion, compacting for each compaction, and no
// compaction begins once the session is closed. JuiceFS tells neither count; both are looked at by reflection, and
// a version without them is refused when a volume is opened.
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
	// quietPolls is how often in a row there has to be none: some shorter work, such as fetching the next inode numbers, is not counted.
	quietPolls = 5
)

// wait returns when there is nothing left.
func (b *background) wait() {
	for quiet := 0; quiet < quietPolls; quiet++ {
		if b.count() > 0 {
			quiet = 0
		}
		time.Sleep(quietPoll)
	}
}
