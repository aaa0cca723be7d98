// Tests leave no goroutine and no descriptor behind.

package rnic

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if n := leftOver(); n > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left\n", n)
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		code = 1
	}
	os.Exit(code)
}

// leftOver counts goroutines besides this one, once those that are about to end have.
func leftOver() int {
	for range 200 {
		if runtime.NumGoroutine() <= 1 {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine() - 1
}
