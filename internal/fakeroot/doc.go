// Package fakeroot is for tests that mount. Those of a user who is not root run as root of namespaces of users and
// mounts of their own, where the kernel lets them: there they may mount, and nobody else sees it. What such a root
// cannot do is to give files to others, as there are none. The other way round, tests of files that may not be read or
// removed run as root without root's rights to files.
package fakeroot
