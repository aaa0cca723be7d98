// Signals that the tests inherit as ignored, as nohup(1) and a shell's background jobs do.

package machine

import (
	"os"
	"os/signal"
	"syscall"
)

// HeedSignals makes programs that the test process starts begin with the default for these signals.
// An ignored signal stays ignored across execve(2), a caught one does not.
func HeedSignals(signals ...syscall.Signal) {
	for _, s := range signals {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
