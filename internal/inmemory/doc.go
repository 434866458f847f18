// Package inmemory has connections and HTTP servers without sockets, for parts of one process that speak to each other by
// protocols made for a network. In a testing/synctest bubble nothing in it waits for the outside.
//
// A Server starts nothing before it is first dialed. Everything is safe for concurrent use.
package inmemory
