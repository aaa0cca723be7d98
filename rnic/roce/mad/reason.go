// A REJ's reasons.

package mad

// Reason is the code in a REJ (IBA 12.6.7.2, Table 109).
type Reason uint16

// The reasons. 34 is not assigned.
const (
	RejNoQP               Reason = 1
	RejNoEEC              Reason = 2
	RejNoResources        Reason = 3
	RejTimeout            Reason = 4
	RejUnsupported        Reason = 5
	RejCommID             Reason = 6
	RejCommInstance       Reason = 7
	RejServiceID          Reason = 8 // no listener: "connection refused"
	RejTransport          Reason = 9
	RejStaleConn          Reason = 10
	RejNoRDC              Reason = 11
	RejPrimaryGID         Reason = 12
	RejPrimaryLID         Reason = 13
	RejPrimarySL          Reason = 14
	RejPrimaryClass       Reason = 15
	RejPrimaryHopLimit    Reason = 16
	RejPrimaryRate        Reason = 17
	RejAlternateGID       Reason = 18
	RejAlternateLID       Reason = 19
	RejAlternateSL        Reason = 20
	RejAlternateClass     Reason = 21
	RejAlternateHopLimit  Reason = 22
	RejAlternateRate      Reason = 23
	RejCMRedirect         Reason = 24 // Info has the address to ask instead
	RejPortRedirect       Reason = 25
	RejMTU                Reason = 26 // Info has an acceptable MTU
	RejResponderResources Reason = 27
	RejConsumer           Reason = 28 // by the program; PrivateData has its data
	RejRNRRetry           Reason = 29
	RejDuplicateCommID    Reason = 30
	RejClassVersion       Reason = 31
	RejPrimaryFlow        Reason = 32
	RejAlternateFlow      Reason = 33
	RejVendorOption       Reason = 35
)

var reasons = [...]string{
	RejNoQP:               "no queue pair available",
	RejNoEEC:              "no EE context available",
	RejNoResources:        "no resources available",
	RejTimeout:            "timeout",
	RejUnsupported:        "unsupported request",
	RejCommID:             "invalid communication ID",
	RejCommInstance:       "invalid communication instance",
	RejServiceID:          "invalid service ID: nothing listens there",
	RejTransport:          "invalid transport service type",
	RejStaleConn:          "stale connection",
	RejNoRDC:              "RDC does not exist",
	RejPrimaryGID:         "primary remote port GID rejected",
	RejPrimaryLID:         "primary remote port LID rejected",
	RejPrimarySL:          "invalid primary SL",
	RejPrimaryClass:       "invalid primary traffic class",
	RejPrimaryHopLimit:    "invalid primary hop limit",
	RejPrimaryRate:        "invalid primary packet rate",
	RejAlternateGID:       "alternate remote port GID rejected",
	RejAlternateLID:       "alternate remote port LID rejected",
	RejAlternateSL:        "invalid alternate SL",
	RejAlternateClass:     "invalid alternate traffic class",
	RejAlternateHopLimit:  "invalid alternate hop limit",
	RejAlternateRate:      "invalid alternate packet rate",
	RejCMRedirect:         "port and CM redirection",
	RejPortRedirect:       "port redirection",
	RejMTU:                "invalid path MTU",
	RejResponderResources: "insufficient responder resources",
	RejConsumer:           "rejected by the consumer",
	RejRNRRetry:           "RNR retry count rejected",
	RejDuplicateCommID:    "duplicate local communication ID",
	RejClassVersion:       "unsupported class version",
	RejPrimaryFlow:        "invalid primary flow label",
	RejAlternateFlow:      "invalid alternate flow label",
	RejVendorOption:       "vendor option not supported",
}

func (r Reason) String() string { return name(reasons[:], int(r), "reject reason ") }
