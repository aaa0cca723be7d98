// Errors with the codes of GSS-API and of Kerberos.

package krb5

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// Major status codes beyond those of package gss (RFC 2203 appendix A).
const (
	majorBadMech uint32 = 0x00010000
	majorBadSig  uint32 = 0x00060000
	majorNoCred  uint32 = 0x00070000
)

// Error codes of Kerberos (RFC 4120 §7.5.9).
const (
	apTicketExpired     = 32
	apTicketNotYetValid = 33
	apRepeat            = 34
	apBadMatch          = 36
	apBadVersion        = 39
	apMsgType           = 40
	apMutualFail        = 46
	apInappChecksum     = 50
	apIllegalTransit    = 43
	apGeneric           = 60
	apNoTGT             = 67
)

// Error codes of Kerberos with a remedy of their own, as Code returns them.
const (
	CodeClientUnknown  = 6   // the KDC does not know the client
	CodeServiceUnknown = 7   // the KDC does not know the service
	CodeNoEnctype      = 14  // the KDC has no key of an enctype that both ends support
	CodePreauthFailed  = 24  // the KDC refuses the client's key or password
	CodeIntegrity      = 31  // a key does not open a ticket or message
	CodeSkew           = 37  // the clocks differ too much
	CodeKeyVersion     = 44  // the service has no key of the ticket's version
	CodeNoKey          = 45  // the service has no key for the ticket
	CodeNoKDC          = 156 // no KDC answers: not a code of messages, but one of MIT's library
)

// Code returns the Kerberos code (RFC 4120 §7.5.9) in an error of either end; 0: it has none.
func Code(err error) int32 {
	var e *gss.Error
	if !errors.As(err, &e) || e.Minor < minorBase || e.Minor >= minorBase+minorCodes {
		return 0
	}
	return int32(e.Minor - minorBase)
}

// minorBase is the number of Kerberos's error 0 in minor status codes, as MIT and Heimdal have it.
// Each table of codes has room for minorCodes.
const (
	minorBase  = 0x96c73a00
	minorCodes = 256
)

// reasons has the reasons of an acceptor's errors by code. Other codes have none.
var reasons = map[int32]gss.Reason{
	CodeIntegrity:       gss.ReasonAuthenticator,
	apTicketExpired:     gss.ReasonTicketTime,
	apTicketNotYetValid: gss.ReasonTicketTime,
	apRepeat:            gss.ReasonReplay,
	apBadMatch:          gss.ReasonAuthenticator,
	CodeSkew:            gss.ReasonClock,
	apBadVersion:        gss.ReasonToken,
	apMsgType:           gss.ReasonToken,
	CodeKeyVersion:      gss.ReasonKey,
	CodeNoKey:           gss.ReasonKey,
	apInappChecksum:     gss.ReasonAuthenticator,
	apIllegalTransit:    gss.ReasonRealm,
	apGeneric:           gss.ReasonUnsupported,
	apNoTGT:             gss.ReasonUnsupported,
}

// krbError makes an error with a Kerberos code and the code's reason.
func krbError(major uint32, code int32, format string, args ...any) *gss.Error {
	return &gss.Error{Major: major, Minor: minorBase + uint32(code), Text: "krb5: " + fmt.Sprintf(format, args...), Reason: reasons[code]}
}

// because replaces an error's reason, for a code with several reasons.
func because(r gss.Reason, e *gss.Error) *gss.Error {
	e.Reason = r
	return e
}

// gssError makes an error without a Kerberos code. Its reason, for an acceptor, is the token.
func gssError(major uint32, text string) *gss.Error {
	return &gss.Error{Major: major, Text: "krb5: " + text, Reason: gss.ReasonToken}
}

// Errors of per-message tokens, made once so that a flood of bad tokens allocates nothing.
var (
	errDefectiveToken error = gssError(gss.DefectiveToken, "the token is malformed")
	errBadMIC         error = gssError(majorBadSig, "the token does not match its key or its data")
	errDirection      error = gssError(majorBadSig, "the token was sent by this end, not by the peer")
	errSubkey         error = gssError(majorBadSig, "the token is protected by another key than the context's")
	errNotSealed      error = gssError(majorBadSig, "the token is not encrypted")
)
