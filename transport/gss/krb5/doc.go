// Package krb5 is the Kerberos 5 mechanism of GSS-API (RFC 4121), with mutual authentication and
// the four AES encryption types. It implements the interfaces of package gss.
//
// Messages of the application exchange (RFC 4120 §3.2), per-message tokens and their cryptography
// are this package's. Tickets come from a KDC through github.com/jcmturner/gokrb5, which no other
// package imports.
package krb5
