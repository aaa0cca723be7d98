// The checks hold on a local file system, and notice a broken one.

package fscheck

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func nothing() error { return nil }

func TestChecksHoldHere(t *testing.T) {
	for _, c := range Checks {
		t.Run(c.Name, func(t *testing.T) {
			if testing.Short() && (c.Name == "large-buffered" || c.Name == "large-direct") {
				t.Skip("128 MB of files")
			}
			e := Env{Dir: t.TempDir(), Large: 8 << 20, Forget: nothing}
			if err := c.Run(e); err != nil && !localOnly(c.Name, err) {
				t.Error(err)
			}
		})
	}
}

// localOnly reports whether an error is usual for local file systems, and no fault of ours.
func localOnly(name string, err error) bool {
	return name == "large-direct" && errors.Is(err, os.ErrInvalid)
}

func TestModelHoldsHere(t *testing.T) {
	for seed := range uint64(3) {
		if err := Model(Env{Dir: t.TempDir(), Large: 8 << 20, Forget: nothing}, seed, 3000); err != nil {
			t.Errorf("Model: %v", err)
		}
	}
}

// TestModelNoticesCorruption: the model finds a file that changes without its operations.
func TestModelNoticesCorruption(t *testing.T) {
	dir := t.TempDir()
	calls := 0
	lie := func() error {
		if calls++; calls < 5 {
			return nil
		}
		list, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range list {
			if b, _ := os.ReadFile(f); len(b) > 0 {
				b[len(b)/2] ^= 1
				os.WriteFile(f, b, 0o644)
			}
		}
		return nil
	}
	if err := Model(Env{Dir: dir, Forget: lie}, 7, 3000); err == nil {
		t.Error("flipped bits went unnoticed")
	}
}
