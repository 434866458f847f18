// Package nfnetlink is the internal/nfnetlink of this module, by its former path.
package nfnetlink
