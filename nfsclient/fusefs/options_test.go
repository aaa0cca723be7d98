// Options: what is left out, what contradicts itself.

package fusefs

import (
	"testing"
	"time"
)

// TestTimesOfTheAttributeCache: the defaults are those of nfs(5); what is given alone moves the
// other.
func TestTimesOfTheAttributeCache(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		in, want Options
		ok       bool
	}{
		{Options{}, Options{AcRegMin: 3 * s, AcRegMax: 60 * s, AcDirMin: 30 * s, AcDirMax: 60 * s}, true},
		{Options{AcRegMax: s}, Options{AcRegMin: s, AcRegMax: s, AcDirMin: 30 * s, AcDirMax: 60 * s}, true},
		{Options{AcDirMin: 90 * s}, Options{AcRegMin: 3 * s, AcRegMax: 60 * s, AcDirMin: 90 * s, AcDirMax: 90 * s}, true},
		{Options{AcRegMin: -1, AcRegMax: -1, AcDirMin: -1}, Options{AcDirMax: 60 * s}, true},
		{Options{NoAC: true}, Options{NoAC: true, Sync: true}, true},
		{Options{AcRegMin: 9 * s, AcRegMax: s}, Options{}, false},
		{Options{LookupCache: 3}, Options{}, false},
	} {
		got := c.in
		err := got.setDefaults()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.in, err)
			continue
		}
		if c.ok && (got.AcRegMin != c.want.AcRegMin || got.AcRegMax != c.want.AcRegMax || got.AcDirMin != c.want.AcDirMin ||
			got.AcDirMax != c.want.AcDirMax || got.Sync != c.want.Sync) {
			t.Errorf("%+v: %+v", c.in, got)
		}
	}
}
