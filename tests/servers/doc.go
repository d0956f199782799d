// Package servers brings the real servers that tests run against. For each kind it takes the first of
//
//   - a server that the user offers by a DSN in the environment: FIRSTTIME_TEST_POSTGRES (a postgres:// URL),
//     FIRSTTIME_TEST_MARIADB and FIRSTTIME_TEST_MYSQL (user:password@tcp(host:port)/), FIRSTTIME_TEST_AMQP
//     (an amqp:// URL);
//   - a container of compose.yaml, where a Docker engine answers;
//   - a private throwaway server from local binaries, in a temporary directory on a free port of
//     127.0.0.1, with its durability at its default. As root on Debian or Ubuntu, packages that are
//     missing are installed first, and named.
//
// FIRSTTIME_TEST_POSTGRES_VERSION, FIRSTTIME_TEST_MARIADB_VERSION and FIRSTTIME_TEST_MYSQL_VERSION ask for a version,
// by its first numbers ("18", "11.8"); any other is refused. A private server that this system does not have in
// that version is taken from Debian's sid, and runs in a root of its own.
//
// Tests get databases of their own, made and dropped by them, and touch no other. What was used is appended
// to the file that FIRSTTIME_TEST_REPORT names.
//
// A private server ends with the process that started it, also when that is killed (on Linux; elsewhere
// Cleanup must run). A killed process leaves the directory behind: firsttime-* in the temporary directory, or in that of its root.
package servers
