// Conditions that a test needs to continue: the test fails at the line of the call.

// Package must has the conditions common to all packages' tests, each as a call that ends the test
// if it is not met. It imports none of our packages.
package must

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// Succeed ends the test at the first non-nil error.
func Succeed(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Equal ends the test if got differs from want; what is its name.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// Hex decodes hexadecimal text and ignores blanks and line ends.
func Hex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patience limits the wait for a condition, even on a heavily overloaded machine.
const patience = 5 * time.Minute

// Become waits until ok returns true, and ends the test with the condition's name after the wait.
func Become(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
