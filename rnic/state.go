// The states of a QP, and the only functions that change them.

package rnic

// State is a QP's place in its life, named as in Linux siw.
//
//	         Connect, Accept
//	IDLE ───────────────────────► RTS
//	  │                            │ Disconnect, or the peer's FIN
//	  │                            ├──────────────────► CLOSING ──┐
//	  │                            │ an error to report           │
//	  │                            ├──────────────────► TERMINATE │
//	  │ Close                      │ connection lost,      │      │
//	  │                            │ Terminate received,   │      │
//	  │                            │ Close                 ▼      ▼
//	  └────────────────────────────┴────────────────────► ERROR ◄─┘
type State uint8

// The states.
const (
	StateIdle      State = iota // not connected; receives may be posted
	StateRTS                    // ready to send
	StateClosing                // accepted work drains, then FIN
	StateTerminate              // our Terminate is in flight; input is discarded
	StateError                  // ended; all work has been flushed or is about to be
)

var stateNames = [...]string{"IDLE", "RTS", "CLOSING", "TERMINATE", "ERROR"}

// String returns the state's name in Linux siw.
func (s State) String() string { return named(stateNames[:], uint8(s), "State") }

// State returns the state of the QP.
func (qp *QP) State() State {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.state
}

// becomeRTS starts a connected QP; false if it was closed meanwhile. The caller holds mu.
func (qp *QP) becomeRTS() bool {
	if qp.state != StateIdle {
		return false
	}
	qp.state = StateRTS
	return true
}

// becomeClosing begins an orderly end. The caller holds mu.
func (qp *QP) becomeClosing() bool {
	if qp.state != StateRTS {
		return false
	}
	qp.state = StateClosing
	return true
}

// becomeTerminate begins an end with an error report to the peer. The caller holds mu.
func (qp *QP) becomeTerminate() { qp.state = StateTerminate }

// becomeError ends the QP. The caller holds mu.
func (qp *QP) becomeError() { qp.state = StateError }
