// Package simulated is a container runtime without containers: a cri.RuntimeService and
// cri.ImageService that keep sandboxes, containers and images in memory, obey the whole contract
// (see package runtimetest), and can be told what goes wrong.
//
// Unless told otherwise every operation succeeds at once, an image that is not there is pulled
// from a registry that has everything, a container runs until it is stopped, and a container that
// is stopped exits at once with code 0. Options.Behave makes operations slow, hang or fail;
// Options.Program says how containers behave.
//
// Time is the standard library's, so a Runtime inside a testing/synctest bubble lives in virtual
// time. Ids are derived from what a sandbox or container is for, and addresses from the pod's
// UID, so that the same test sees the same ones in every run.
//
// Errors are those of package cri. A Runtime is safe for concurrent use; Close ends the timers of
// running containers and waits for them.
package simulated
