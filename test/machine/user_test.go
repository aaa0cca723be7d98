// A test's needs from the machine.

package machine

import "testing"

// TestNeedRoot: a test is skipped if a program that it needs is missing.
func TestNeedRoot(t *testing.T) {
	NeedRoot(t, "needs root")
	t.Setenv("CI", "")
	t.Setenv("NFSRDMA_SKIP_LOG", "") // its subtest is skipped on purpose: not for the log of skips
	ran := map[string]bool{}
	for _, program := range []string{"sh", "no-such-program-of-nfsrdma"} {
		t.Run(program, func(t *testing.T) {
			NeedRoot(t, "a test of its own", "sh", program)
			ran[program] = true
		})
	}
	if !ran["sh"] {
		t.Error("a test with its programs was skipped")
	}
	if ran["no-such-program-of-nfsrdma"] {
		t.Error("a test without one of its programs was run")
	}
}
