// Package fairqueuing has the flowcontrol.Limiter of an API server: within each priority level, requests that find no seat
// wait in queues, and each queue gets an equal part of the seats over time.
//
// It does what upstream's does with these differences. A flow never takes the last seats of its level: it may have fewer
// than it leaves free, so that requests which hold their seats for long, such as those whose bodies arrive slowly, do not
// keep other flows waiting; upstream lets one flow have them all. Every request takes one seat, where upstream takes up to
// ten for large lists and holds those of writes a little longer when there are many watchers.
//
// A Limiter has no goroutines. Once in ten seconds a request that comes, waits or ends has the levels lend each other seats
// anew.
package fairqueuing
