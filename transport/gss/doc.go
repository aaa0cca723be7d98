// Overview: the messages of RPCSEC_GSS.

// Package gss implements RPCSEC_GSS version 1 (RFC 2203) for package transport, without a
// mechanism: context creation, sequence numbers, verifiers, protected arguments and results.
// Package gss/krb5 has the mechanism Kerberos 5.
package gss
