// The probe, of sockets in user space and of this kernel.

package ktls

import (
	"errors"
	"syscall"
	"testing"
)

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*softSocket)
		rekeys, can bool
	}{
		"all":         {func(*softSocket) {}, true, true},
		"Linux 6.12":  {func(s *softSocket) { s.noRekey = true }, false, true},
		"no module":   {func(s *softSocket) { s.absent = syscall.ENOENT }, false, false},
		"no cipher":   {func(s *softSocket) { s.refuses[receiving] = syscall.EINVAL }, false, false},
		"not to send": {func(s *softSocket) { s.refuses[sending] = syscall.EINVAL }, false, false},
	} {
		a, _ := tcpPair(t)
		s := newSoftSocket(t, a)
		c.change(s)
		if rekeys, err := probe(s); rekeys != c.rekeys || (err == nil) != c.can || err != nil && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, %v; want %v, and an error that is ErrUnsupported: %v", name, rekeys, err, c.rekeys, !c.can)
		}
	}
}

// TestKernelProbe: the probe agrees with a session.
func TestKernelProbe(t *testing.T) {
	rekeys, err := Probe()
	if err != nil && !errors.Is(err, ErrUnsupported) {
		t.Errorf("Probe: %v, want no error or ErrUnsupported", err)
	}
	t.Logf("this kernel follows new keys: %v, %v", rekeys, err)
	inKernel(t, true)
	if err != nil {
		t.Errorf("Probe: %v, and a session moves", err)
	}
}
