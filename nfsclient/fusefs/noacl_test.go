// That a file system has no ACLs is remembered for a time.

package fusefs

import (
	"testing"
	"time"
)

func TestWithoutACLs(t *testing.T) {
	var w withoutACLs
	now := time.Now()
	if w.has(1, now) {
		t.Error("known before it was said")
	}
	w.add(1, now)
	if !w.has(1, now.Add(withoutTime-1)) || w.has(2, now) {
		t.Error("not known, or known of another")
	}
	if w.has(1, now.Add(withoutTime)) {
		t.Error("known for ever")
	}
	w.remove(1)
	if w.has(1, now) {
		t.Error("known after an ACL was set")
	}
}
