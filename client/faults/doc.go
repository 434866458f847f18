// Package faults is what can go wrong between a client and its server, over any client.Client: requests that are refused,
// that take long, or that are carried out while their answers are lost. It keeps a record of the requests, too.
//
//	c := faults.New(server, faults.Options{})
//	c.Inject(faults.Fault{Verb: faults.Create, Resource: "pods", Skip: 1, Err: errors.New("no route to host")})
//
// lets one pod be created and fails the next. Delays are of the standard library's time, so that they cost nothing in a
// testing/synctest bubble.
//
// A Client is safe for concurrent use and starts no goroutines.
package faults
