// Package clienttest is the suite that every client.Client passes, whichever way it goes to whatever it is a client of.
package clienttest
