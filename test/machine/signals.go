// Signals that the tests inherit as ignored, for example from nohup(1) or a shell's background
// jobs.

package machine

import (
	"os"
	"os/signal"
	"syscall"
)

// HeedSignals makes programs started by the test process begin with the default action for these
// signals. An ignored signal stays ignored across execve(2); a caught signal does not.
func HeedSignals(signals ...syscall.Signal) {
	for _, s := range signals {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
