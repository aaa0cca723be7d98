// Options: defaults and contradictions.

package fusefs

import (
	"testing"
	"time"
)

// Attribute timeouts have nfs(5)'s defaults. If only a minimum or a maximum is set, the other bound
// is moved to fit.
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
		if !c.ok {
			continue
		}
		times := func(o *Options) [5]any { return [5]any{o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax, o.Sync} }
		if got, want := times(&got), times(&c.want); got != want {
			t.Errorf("%+v: got %v, want %v", c.in, got, want)
		}
	}
}
