// Conditions that a test cannot go on without: it fails there, at the line of the condition.

// Package must has the conditions of tests of all packages, each in a call that ends the test if it
// is not met. It knows nothing of ours.
package must

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// Succeed ends the test at the first of the errors.
func Succeed(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Equal ends the test if got is not want; what names it.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// Hex returns the bytes of a text in hexadecimal, in which blanks and line ends have no meaning.
func Hex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patience is how long a condition may take, on a machine that is many times overloaded.
const patience = 5 * time.Minute

// Become waits until ok, and ends the test with the condition's name if that does not come.
func Become(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
